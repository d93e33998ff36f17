// The leader of a cluster, with devices, in a process of its own that a bench can kill. It sends
// its address to the parent.

import { Cluster } from "../../internal.ts";

const [devices = "1", minDevices = "1", port = "0", directory = ""] = process.argv.slice(2);
const cluster = await Cluster.start({
  devices: Number(devices),
  minDevices: Number(minDevices),
  port: Number(port),
  token: "bench",
  state: { directory },
});
await cluster.leading;
process.send?.({ url: cluster.url });
process.on("disconnect", () => process.exit(0));
