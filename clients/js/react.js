/** React hooks for the client, and a canvas for a track: react.d.ts documents them. */

import { createElement, useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { connect } from "./client/reactor.js";

const CONNECTING = { phase: "connecting", role: null };
const NOTHING = {};
const CHANGES = ["status", "session", "state"];

/** @type {typeof import("./react.d.ts").useReactor} */
export function useReactor(url, { token, role, watch } = {}) {
  const [session, setSession] = useState(null);
  useEffect(() => {
    let begun = null;
    let gone = false;
    queueMicrotask(() => {
      // StrictMode calls an effect, ends it and calls it again: one connection is enough.
      if (gone) return;
      try {
        begun = connect(url, { token, role, watch });
        setSession(begun);
      } catch (error) {
        setSession(() => {
          throw error;
        });
      }
    });
    return () => {
      gone = true;
      begun?.close();
    };
  }, [url, token, role, watch]);
  const status = useValue(session, "status", CONNECTING);
  const state = useValue(session, "state", NOTHING);
  return { session, status, state };
}

/** Return a property of the session; `initial` before there is a session. */
function useValue(session, name, initial) {
  const subscribe = useCallback((changed) => listen(session, CHANGES, changed), [session]);
  return useSyncExternalStore(
    subscribe,
    () => (session ? session[name] : initial),
    () => initial,
  );
}

/** @type {typeof import("./react.d.ts").useReactorEvent} */
export function useReactorEvent(session, name, listener) {
  const newest = useRef(listener);
  useEffect(() => {
    newest.current = listener;
  });
  useEffect(() => listen(session, [name], ({ detail }) => newest.current(detail)), [session, name]);
}

/** @type {typeof import("./react.d.ts").ReactorView} */
export function ReactorView({ session, track = null, ...attributes }) {
  const canvas = useRef(null);
  useEffect(() => session?.attach(track, canvas.current), [session, track]);
  return createElement("canvas", { role: "img", "aria-label": track ?? "video", ...attributes, ref: canvas });
}

/** Return a function that removes the listeners. */
function listen(session, names, listener) {
  for (const name of names) session?.addEventListener(name, listener);
  return () => names.forEach((name) => session?.removeEventListener(name, listener));
}
