// The fault that the message `chaos.throw` injects into an actor: an error of a class that no actor
// handles.

/** The error thrown on request. Like any unknown error, its recovery is: restore. */
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

/** @throws InjectedError if the event is `chaos.throw` */
export function throwInjected(event: { readonly type: string }): void {
  if (event.type !== "chaos.throw") return;
  throw new InjectedError((event as ThrowEvent).body.reason);
}
