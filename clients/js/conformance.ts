/** Compiles only if the client has what `reactor.d.ts` declares. */

import type * as errors from "../../reactor_runtime/page/client/errors.js";
import type * as declared from "../../reactor_runtime/page/client/reactor.d.ts";
import type { Session } from "../../reactor_runtime/page/client/session.js";
import type { Speaker } from "../../reactor_runtime/page/client/sound/speaker.js";

// `code` is a property of the prototypes.
type Declared = {
  [Name in keyof typeof errors & keyof typeof declared]: Omit<InstanceType<(typeof declared)[Name]>, "code">;
};
type Actual = { [Name in keyof Declared]: InstanceType<(typeof errors)[Name]> };

export const checkSession = (session: Session): declared.Session => session;
export const checkSpeaker = (speaker: Speaker): declared.Speaker => speaker;
export const checkErrors = (made: Actual): Declared => made;
