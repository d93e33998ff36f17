// The object store process of a test: s3rver, which checks signatures. Its paginated lists need a
// legacy cipher, which Node offers only with a flag of the process.
//
//   node --openssl-legacy-provider object-store-program.js DIRECTORY BUCKET …   prints its port

import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";

interface Server {
  readonly store: {
    listObjects(bucket: string, options: { maxKeys?: number }): Promise<unknown>;
  };
  run(): Promise<AddressInfo>;
}

/** Keys per list page: so few that several pages need few objects; S3 has 1000. */
const pageKeys = 20;

const [directory = "", ...names] = process.argv.slice(2);
const S3rver = createRequire(import.meta.url)("@20minutes/s3rver") as new (
  options: object,
) => Server;
const server = new S3rver({
  ...{ port: 0, address: "127.0.0.1", silent: true, vhostBuckets: false },
  directory,
  configureBuckets: names.map((name) => ({ name })),
});
const { store } = server;
const listObjects = store.listObjects.bind(store);
store.listObjects = (bucket, { maxKeys = pageKeys, ...rest }) =>
  listObjects(bucket, { ...rest, maxKeys: Math.min(maxKeys, pageKeys) });
const { port } = await server.run();
process.stdout.write(`${port}\n`);
// Ends with the parent process.
process.stdin.on("end", () => process.exit(0)).resume();
