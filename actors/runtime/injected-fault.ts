// What every actor does when a test or the chaos harness tells it to throw (where faults are
// allowed).

/** Thrown on request. Its recovery is that of any unknown error: restore. */
export class InjectedError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "InjectedError";
  }
}

export interface ThrowEvent {
  readonly type: "chaos.throw";
  readonly body: { readonly reason: string };
}

/** An xstate action: throws what the event asks for. */
export function throwInjected({ event }: { event: { type: string } }): never {
  const { body } = event as ThrowEvent;
  throw new InjectedError(body.reason);
}
