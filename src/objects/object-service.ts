// The thread that sends the requests of all blocking threads of a process to object stores. There
// is one for all threads, because it takes about 21 MB and 0.2 s to start, 128 times as much with
// 128 devices. Bodies are hashed on the threads that wait, so that this thread mostly moves bytes.

import { BroadcastChannel, workerData } from "node:worker_threads";
import { InputUnusableError } from "../errors/errors.ts";
import { beatNow, seatWords, serviceChannel } from "../ports/process-seat.ts";
import { connectTo } from "./http-connection.ts";
import type { Connection } from "./later-store.ts";
import { noAnswer } from "./requests.ts";
import { type ServiceRequest, sendRefusal, sendReply } from "./service-messages.ts";

/** The program's argument. */
export interface ServiceData {
  readonly seat: Int32Array;
  readonly epoch: number;
}

/** Interval of the heartbeat, by which waiting threads recognise that the service is alive. */
const beatMs = 100;

serve(workerData as ServiceData);

function serve({ seat, epoch }: ServiceData): void {
  if (Atomics.load(seat, seatWords.ready) === epoch) return; // Started twice: the other serves.
  const connections = new Map<string, Connection>();
  const channel = new BroadcastChannel(serviceChannel(seat, epoch));
  let open = 0;
  channel.onmessage = (event) => {
    open++;
    const asked = (event as { data: ServiceRequest }).data;
    void answer(connections, asked).finally(() => open--);
  };
  const beat = () => Atomics.store(seat, seatWords.beat, beatNow());
  const beating = setInterval(() => {
    const isReplaced = Atomics.load(seat, seatWords.epoch) !== epoch;
    if (!isReplaced) beat();
    if (!isReplaced || open > 0) return;
    clearInterval(beating);
    channel.close();
    for (const connection of connections.values()) connection.close();
  }, beatMs);
  beat();
  Atomics.store(seat, seatWords.ready, epoch);
  Atomics.notify(seat, seatWords.ready);
}

async function answer(connections: Map<string, Connection>, asked: ServiceRequest): Promise<void> {
  const { address, env, attemptMs, request, object } = asked;
  const name = JSON.stringify([address, env, attemptMs]);
  try {
    const connection = connections.get(name) ?? connectTo(address, env, { attemptMs });
    connections.set(name, connection);
    sendReply(asked, await connection.ask(request, object));
  } catch (error) {
    if (error instanceof InputUnusableError) sendRefusal(asked, error.path, error.message);
    else sendReply(asked, noAnswer(error instanceof Error ? error.message : String(error)));
  }
}
