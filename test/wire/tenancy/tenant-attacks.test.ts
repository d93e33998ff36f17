// Attempts of legitimate users to exceed their rights on a cluster: on a real nats-server, with the
// configuration that `osiris nats-config` writes.

import { Cluster, connect } from "../../../index.ts";
import { tenantsOf } from "../../../src/wire/tenancy/tenants.ts";
import { startRawClient } from "../../helpers/nats/raw-client.ts";
import { placeOf } from "../../helpers/nats/tenants.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";

testIf(natsServer)(
  "replies cannot be commands, headers cannot crash, and a flood harms only its tenant",
  async (t) => {
    const place = await placeOf(t);
    const { url: nats, as } = place;
    const incidents: string[] = [];
    const tenants = tenantsOf({ acme: { users: {} }, other: { users: {} } });
    await using _root = await Cluster.start({
      ...{ nats, ...as.root, devices: 0, minDevices: 1, tenants },
      onIncident: ({ reason }) => incidents.push(`${reason.code} ${reason.message}`),
    });
    await using asAdmin = await connect({ nats, ...as.admin });
    const refused = async () => (await asAdmin.inspect()).processes[0]?.refusedFrames;
    const before = (await refused()) ?? 0;

    // An admin names reply subjects on which only the leader (user `root`) may publish; the leader
    // sends no reply there.
    const [{ transport: house }, { transport: admin }] = [
      await place.dial("root"),
      await place.dial("admin"),
    ];
    const subjects: string[] = [];
    house.subscribe("osiris.c1.forged.>", ({ subject }) => subjects.push(subject));
    await house.flush();
    for (const asked of ["osiris.c1.jobs.list", "osiris.c1.inspect.runs", "$SRV.PING"]) {
      admin.publish(asked, new TextEncoder().encode("{}"), { reply: `osiris.c1.forged.${asked}` });
      admin.publish(asked, new TextEncoder().encode("{}"), { reply: "$JS.API.STREAM.PURGE.x" });
    }
    await admin.flush();
    t.is(await refused(), before + 6);
    await house.flush();
    t.deepEqual(subjects, []);

    // Invalid headers count as invalid messages, not as failures of the transport.
    using raw = await startRawClient(Number(new URL(nats).port));
    const login = {
      ...{ user: "other.bob", pass: "correct-horse" },
      headers: true,
      verbose: false,
    };
    raw.send(`CONNECT ${JSON.stringify(login)}`, "SUB _INBOX.raw 1");
    const head = "NATS/1.0\r\nno name: x\r\n\r\n";
    for (let sent = 0; sent < 3; sent++) {
      raw.send(`HPUB osiris.c1.jobs.other.list _INBOX.raw ${head.length} ${head.length + 2}`);
      raw.send(`${head}{}`);
    }
    raw.send("PUB osiris.c1.jobs.other.list _INBOX.raw 2", "{}");
    await raw.until('"runs"');
    t.is(await refused(), before + 9);
    t.deepEqual(
      incidents.map((incident) => incident.split(" ")[0]),
      new Array(9).fill("FRAME_CORRUPT"),
    );

    // Fewer than half of a flood's requests get an answer; another tenant is served meanwhile.
    await using bob = await connect({ nats, ...as.bob, tenant: "other" });
    const { transport: ada } = await place.dial("ada");
    let answers = 0;
    ada.subscribe("_INBOX.flood", () => answers++);
    const many = 20_000;
    for (let i = 0; i < many; i++) {
      ada.publish("osiris.c1.jobs.acme.list", new TextEncoder().encode("{}"), {
        reply: "_INBOX.flood",
      });
    }
    t.deepEqual(await bob.list(), []);
    await ada.flush();
    t.deepEqual(await bob.list(), []);
    await using asAda = await connect({ nats, ...as.ada, tenant: "acme" });
    t.deepEqual(await asAda.list(), [], "the tenant is served again after its flood");
    await ada.flush(); // No request of the flood waits for its answer.
    t.true(answers > 0 && answers < many / 2, `${answers} answers`);
  },
);
