// Opens a session file in Pi and lets Pi compact it: Pi's own cut, kept range and entry, with a summary that is given.
// usage: PI_ROOT=<package> node compact_pi.mjs FILE KEEP_RECENT_TOKENS SUMMARY      prints the id of the entry, or null
import { join } from "node:path";
import { pathToFileURL } from "node:url";
const load = (file) => import(pathToFileURL(join(process.env.PI_ROOT, "dist/core", file)).href);
const { SessionManager } = await load("session-manager.js");
const { prepareCompaction, compact } = await load("compaction/compaction.js");
const [file, keepRecentTokens, summary] = process.argv.slice(2);
const session = SessionManager.open(file);
const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const reply = {
  role: "assistant", content: [{ type: "text", text: summary }], api: "a", provider: "p", model: "m", stopReason: "stop", timestamp: 1,
  usage: { input: 7, output: 3, cacheRead: 0, cacheWrite: 0, totalTokens: 10, cost },
};
const model = { id: "m", provider: "p", api: "a", contextWindow: 200000, maxTokens: 8000, input: ["text"], cost };
const stream = async () => ({ result: async () => reply });
const settings = { enabled: true, reserveTokens: 16384, keepRecentTokens: Number(keepRecentTokens) };
const prepared = prepareCompaction(session.getBranch(), settings);
let id = null;
if (prepared) {
  const made = await compact(prepared, model, "key", undefined, undefined, undefined, undefined, stream);
  id = session.appendCompaction(made.summary, made.firstKeptEntryId, made.tokensBefore, made.details, false, made.usage);
}
console.log(JSON.stringify(id));
