/** The errors of the client: see reactor.d.ts. */

export class ClientError extends Error {
  /** Include errors of another copy of this module. */
  static [Symbol.hasInstance](value) {
    const [mark] = Object.getOwnPropertySymbols(this.prototype);
    return mark ? Boolean(value?.[mark]) : super[Symbol.hasInstance](value);
  }
}

export class ConnectError extends ClientError {}

export class Refused extends ConnectError {}

export class Busy extends ConnectError {}

export class EventError extends ClientError {
  constructor({ code = "error", message, fields, event = "", made = null }) {
    super(message || code);
    this.made = made;
    this.code = code;
    this.fields = Array.isArray(fields) ? fields : [];
    this.event = event;
  }
}

export class ConnectionLost extends ClientError {}

export class SessionEnded extends ClientError {
  constructor(reason, detail) {
    super(`the session has ended: ${detail || reason}`);
    this.reason = reason;
    this.detail = detail;
  }
}

export class UploadError extends ClientError {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class MediaError extends ClientError {}

/** Return the error of a status whose phase is "ended". */
export function errorOf({ reason, detail }) {
  if (reason === "unreachable") return new ConnectError(detail);
  if (reason === "lost") return new ConnectionLost(detail);
  return reason === "refused" ? new Refused(detail) : new SessionEnded(reason, detail);
}

// Bundlers rename classes.
const define = (Class, name, code) =>
  Object.assign(Class.prototype, { name, code, [Symbol.for(`reactor.${name}`)]: true });
define(ClientError, "ClientError", "error");
define(ConnectError, "ConnectError", "unreachable");
define(Refused, "Refused", "refused");
define(Busy, "Busy", "busy");
define(EventError, "EventError", "error");
define(ConnectionLost, "ConnectionLost", "connection_lost");
define(SessionEnded, "SessionEnded", "session_ended");
define(UploadError, "UploadError", "upload_failed");
define(MediaError, "MediaError", "bad_media");
