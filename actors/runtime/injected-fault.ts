// The fault that the message `chaos.throw` injects into an actor: it fails with an error that no
// actor knows.

/** Thrown on request. Its recovery is that of any unknown error: restore. */
export class InjectedError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "InjectedError";
  }
}

interface ThrowEvent {
  readonly type: "chaos.throw";
  readonly body: { readonly reason: string };
}

/** @throws InjectedError if the event asks for it */
export function throwInjected(event: { readonly type: string }): void {
  if (event.type !== "chaos.throw") return;
  throw new InjectedError((event as ThrowEvent).body.reason);
}
