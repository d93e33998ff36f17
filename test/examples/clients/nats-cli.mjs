// `nats request SUBJECT BODY --raw`, as examples/submit-job.sh uses the command line of NATS, by the
// official client: where that program is not installed, the example's requests are sent all the same.

import { connect } from "nats";

const [verb, subject, body, flag] = process.argv.slice(2);
if (verb !== "request" || flag !== "--raw") throw new Error(`Not known here: ${process.argv}`);
const { NATS_URL: servers, NATS_USER: token } = process.env;
const client = await connect({ servers, token });
const reply = await client.request(subject, body, { timeout: 5000 });
process.stdout.write(reply.string());
await client.close();
