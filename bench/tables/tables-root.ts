// A process of a cluster, with devices, that a bench can kill: the leader, which sends its address
// to the parent; or another host, of the cluster at `url`.

import { Cluster, Host } from "../../internal.ts";
import "./gap-meter.ts";

const [devices = "1", minDevices = "1", port = "0", directory = "", url] = process.argv.slice(2);
const token = "bench";
if (url === undefined) {
  const state = { directory };
  const sizes = { devices: Number(devices), minDevices: Number(minDevices) };
  const cluster = await Cluster.start({ ...sizes, port: Number(port), token, state });
  await cluster.leading;
  process.send?.({ url: cluster.url });
} else {
  await Host.join({ nats: url, token, devices: Number(devices) });
}
process.on("disconnect", () => process.exit(0));
