// The bucket of a test's machines, with a data set of clicks in it, on a machine of its own. Prints
// a line once it serves, and answers on port 80 with the bytes that it has sent of each object to
// each machine: bucket-program.js ADDRESS FILES ROWS.

import { createServer } from "node:http";
import { serveBucket } from "../../../chaos/objects/bucket-server.ts";
import { clickFile } from "./click-files.ts";

const [host = "", files = "", rows = ""] = process.argv.slice(2);

const { bucket, endpoint, sent } = await serveBucket({}, { host, port: 9000 });
for (let file = 0; file < Number(files); file++) {
  bucket.plant(`clicks/part-${file}.parquet`, clickFile(file, Number(rows)));
}
createServer((_, response) => {
  const plain = [...sent].map(([machine, keys]) => [machine, Object.fromEntries(keys)]);
  response.end(JSON.stringify(Object.fromEntries(plain)));
}).listen(80, () => process.stdout.write(`${endpoint}\n`));
