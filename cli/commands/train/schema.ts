// osiris schema: prints the JSON Schema of a job, for editors and for programs that write jobs.

import type { Command } from "commander";
import { jobJsonSchema } from "../../../internal.ts";
import { type CommonOptions, withCommon } from "../../support/arguments.ts";

export function addSchema(program: Command): void {
  const command = program.command("schema").description("print the JSON Schema of a job");
  withCommon(command, ["schema > job.schema.json"]).action(({ json }: CommonOptions) => {
    console.log(JSON.stringify(jobJsonSchema(), undefined, json === true ? 0 : 2));
  });
}
