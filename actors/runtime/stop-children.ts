// An actor that ends takes down what it started, last started first, as OTP has it. xstate stops
// the children of a machine that is stopped in the order of their start, and leaves those of one
// that fails running: threads without anyone who answers for them, and cleanups that never come.

import type { AnyActorRef, AnyActorScope, AnyMachineSnapshot, AnyStateMachine } from "xstate";

/** The same machine, which stops its children before it stops or reports its failure. */
export function downWithChildren<Machine extends AnyStateMachine>(machine: Machine): Machine {
  const { transition } = machine as AnyStateMachine;
  const stopping: typeof transition = (snapshot, event, scope) => {
    if (event.type === "xstate.stop") stopAll(snapshot, scope);
    let next: AnyMachineSnapshot;
    try {
      next = transition(snapshot, event, scope);
    } catch (error) {
      stopAll(snapshot, scope);
      throw error;
    }
    if (next.status === "error") stopAll(next, scope);
    return next;
  };
  return Object.assign(machine, { transition: stopping });
}

function stopAll({ children }: AnyMachineSnapshot, scope: AnyActorScope): void {
  const started = Object.values<AnyActorRef | undefined>(children);
  for (const child of started.reverse()) if (child !== undefined) scope.stopChild(child);
}
