/** Limits how often a value is sent: one at a time, at most one per repaint. */

// A hidden page is not repainted, but must still send the release of a key.
const HIDDEN_MS = 100;

/**
 * Return {push, busy}: push(value) sends values one at a time, at most one per repaint. Of waiting values only the
 * newest is sent, or what `merge(waiting, newer)` returns. `send(value, inputAt)` returns a promise that never rejects.
 */
export function throttledSender(send, merge = (_waiting, newer) => newer) {
  let next = null;
  let inFlight = false;
  let awaitsRepaint = false;
  const pump = async () => {
    if (!next || inFlight || awaitsRepaint) return;
    const { value, inputAt } = next;
    next = null;
    inFlight = awaitsRepaint = true;
    repainted().then(() => {
      awaitsRepaint = false;
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
