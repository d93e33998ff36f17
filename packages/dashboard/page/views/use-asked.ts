// What a view asks for again and again while it is open.

import { useEffect, useState } from "../dom.ts";
import { get } from "../feed.ts";
import type { Store } from "../store.ts";

const askEveryMs = 3000;

/** The newest answer; undefined: there is none yet. `ask`: how it is asked for, a whole answer. */
export function useAsked<Answer>(
  path: string,
  store: Store,
  ask: (path: string) => Promise<Answer> = get<Answer>,
): Answer | undefined {
  const [answer, setAnswer] = useState<Answer | undefined>(undefined);
  useEffect(() => {
    if (store.isFile) return;
    let isOpen = true;
    let isAsking = false;
    const again = () => {
      if (document.hidden || isAsking) return;
      isAsking = true;
      ask(path)
        .then(
          (given) => isOpen && setAnswer(given),
          () => {}, // While the leader is away, what was told last stays.
        )
        .finally(() => {
          isAsking = false;
        });
    };
    again();
    const timer = setInterval(again, askEveryMs);
    return () => {
      isOpen = false;
      clearInterval(timer);
    };
  }, [path]);
  return answer;
}
