/** Limits how often a value is sent: one at a time, at most one per repaint. */

const HIDDEN_MS = 100; // a hidden page is not repainted, and what was let go as it was hidden must go

/**
 * Sends values one at a time and at most one per repaint; of those that wait only the newest goes, or what `merge(waiting, newer)`
 * makes of them. `send(value, inputAt)` returns a promise that never rejects.
 */
export function throttledSender(send, merge = (_waiting, newer) => newer) {
  let next = null;
  let inFlight = false;
  let cooling = false;
  const pump = async () => {
    if (!next || inFlight || cooling) return;
    const { value, inputAt } = next;
    next = null;
    inFlight = cooling = true;
    repainted().then(() => {
      cooling = false;
      pump();
    });
    await send(value, inputAt);
    inFlight = false;
    pump();
  };
  const push = (value) => {
    next = { value: next ? merge(next.value, value) : value, inputAt: performance.now() };
    pump();
  };
  return {
    push,
    get busy() {
      return inFlight || next !== null;
    },
  };
}

const repainted = () =>
  new Promise((done) => {
    requestAnimationFrame(done);
    setTimeout(done, HIDDEN_MS);
  });
