// Variables of the environment during one test. The tests of a room share a process: a variable
// that stays behind changes the tests after it.

import type { ExecutionContext } from "ava";

/** Sets variables, or removes them where the value is undefined, until the test ends. */
export function setEnvironment(
  t: ExecutionContext,
  variables: Readonly<Record<string, string | undefined>>,
): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name];
    setVariable(name, value);
    t.teardown(() => setVariable(name, before));
  }
}

function setVariable(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}
