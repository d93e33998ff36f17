// A stand-in for `nats request SUBJECT BODY --raw`, which examples/submit-job.sh runs: sends the
// same request with NATS's official client, so that the test needs no installed `nats` command.

import { connect } from "nats";

const [verb, subject, body, flag] = process.argv.slice(2);
if (verb !== "request" || flag !== "--raw") throw new Error(`Not known here: ${process.argv}`);
const { NATS_URL: servers, NATS_USER: token } = process.env;
const client = await connect({ servers, token });
const reply = await client.request(subject, body, { timeout: 5000 });
process.stdout.write(reply.string());
await client.close();
