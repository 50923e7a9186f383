// Pi's side of the comparison, one JSON object: the steps of `_peer` in child.py, in the same order.
// Usage: PI_ROOT=.../@earendil-works/pi-coding-agent node pi_peer.mjs FILE EMPTY_DIRECTORY APPENDS      (Node 22)
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [file, directory, appends] = process.argv.slice(2);
const module = resolve(process.env.PI_ROOT, "dist/core/session-manager.js");
const { SessionManager } = await import(pathToFileURL(module).href);

const timed = (work) => {
  const start = process.hrtime.bigint();
  const value = work();
  return [value, Number(process.hrtime.bigint() - start) / 1e9];
};

const [manager, open_s] = timed(() => SessionManager.open(file, directory));
const [context, context_s] = timed(() => manager.buildSessionContext());
const peak_mib = process.resourceUsage().maxRSS / 1024;
const [, tree_s] = timed(() => manager.getTree());
const [, clone_s] = timed(() => manager.createBranchedSession(manager.getLeafId())); // it goes on in the copy
const prompt = { role: "user", content: [{ type: "text", text: "x".repeat(3000) }], timestamp: 1767312000000 };
const [, all_s] = timed(() => { for (let i = 0; i < Number(appends); i++) manager.appendMessage(prompt); });
const append_s = all_s / Number(appends);
console.log(JSON.stringify({ open_s, context_s, messages: context.messages.length, peak_mib, tree_s, clone_s, append_s }));
