// Opens a session file in Pi and calls methods of its SessionManager, as another program that goes on with the session.
// usage: PI_ROOT=<package> node call_pi.mjs FILE '[["appendMessage", {...}], ...]'      prints the results as one array
// In arguments "$leaf" stands for the leaf, "$0", "$1", … for the result of that step.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
const { SessionManager } = await import(pathToFileURL(join(process.env.PI_ROOT, "dist/core/session-manager.js")).href);
const [file, steps] = process.argv.slice(2);
const session = SessionManager.open(file);
const results = [];
const given = (value) =>
  value === "$leaf" ? session.getLeafId() : /^\$\d+$/.test(value) ? results[Number(value.slice(1))] : value;
for (const [method, ...values] of JSON.parse(steps)) results.push(session[method](...values.map(given)) ?? null);
console.log(JSON.stringify(results));
