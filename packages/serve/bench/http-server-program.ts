// A server of one model in a process of its own, with the engine that its argument names. Sends its
// address to its parent, then its processor time for each message, and exits with its parent.

import { collectAlone } from "../../../src/ports/launcher.ts";
import { ServedModel } from "../model/served-model.ts";
import { serve } from "../server/serve.ts";
import { openOnnxEngine } from "./onnx-engine.ts";

collectAlone(); // As in `osiris serve`.
const [directory = "", engine = "osiris"] = process.argv.slice(2);
const open = engine === "onnx" ? openOnnxEngine : ServedModel.open;
const options = { port: 0, models: { m: { path: directory, watch: false } }, deadlineMs: 60_000 };
const server = await serve(options, { open });
process.send?.(server.url);
process.on("message", () => process.send?.(process.cpuUsage())); // Any message requests it.
process.on("disconnect", () => process.exit(0));
