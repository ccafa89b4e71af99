/** What can go wrong: see reactor.d.ts. */

export class EventError extends Error {
  constructor({ code = "error", message, fields, event = "" }) {
    super(message || code);
    this.code = code;
    this.fields = Array.isArray(fields) ? fields : [];
    this.event = event;
  }
}

export class ConnectionLost extends Error {}

export class SessionEnded extends Error {
  constructor(reason, detail) {
    super(`the session has ended: ${detail || reason}`);
    this.reason = reason;
  }
}

export class UploadError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}
