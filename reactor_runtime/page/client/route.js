/**
 * The server of each connection: that of the client's address, or the worker to which this server, a front, redirects.
 * Addresses are those of sockets.
 */

export const PROTOCOL = "reactor.v1";

export class Route {
  #front;
  #worker = null;
  #ticket = null;
  // The secret of a session that was lost. Not for a URL, which proxies log.
  #returning = null;
  // Whether the worker has sent a welcome: then it is entered with the secret of the session, before with the ticket.
  #admitted = false;
  #follows = true;

  constructor(front) {
    this.#front = front;
  }

  /** The current server. Only a front gets the token. */
  get server() {
    return this.#worker ?? this.#front;
  }
  get atWorker() {
    return this.#worker !== null;
  }
  get admitted() {
    return this.#admitted;
  }
  get acceptsRedirect() {
    return this.#follows && !this.atWorker;
  }

  /** Return the address of the next attempt; `resume` is the secret of a session that is kept. */
  next(resume) {
    const front = { resume, redirect: this.#follows && "1" };
    const worker = this.#admitted ? { resume } : { ticket: this.#ticket };
    return withQuery(this.server, this.atWorker ? worker : front);
  }

  /** Return the subprotocols of the next attempt: only the front gets the secret. */
  get protocols() {
    const secret = !this.atWorker && this.#returning;
    return secret ? [PROTOCOL, `reactor.return.${secret}`] : [PROTOCOL];
  }

  /** Go to a worker. If its address is not http, or not https as the front's is, give it up and return a message. */
  follow({ url, ticket, session, returning }) {
    [this.#ticket, this.#returning] = [ticket, returning];
    const { protocol, host, pathname } = parse(url);
    if (protocol !== "https:" && (protocol !== "http:" || this.#front.protocol === "wss:")) {
      return this.#giveUp(`${url} is not the address of a worker of ${this.#front.host}`);
    }
    const role = this.#front.searchParams.get("role");
    const address = new URL(`${protocol.replace("http", "ws")}//${host}${pathname.replace(/\/$/, "")}/ws`);
    this.#worker = withQuery(address, { role, session });
    this.#admitted = false;
    return "";
  }

  /** Note that the current server has accepted this client. */
  welcomed() {
    this.#admitted = this.atWorker;
    if (!this.atWorker) this.#returning = null;
  }

  /** Give up a worker that did not admit this client; return a message. */
  refused(reason) {
    const { protocol, host } = this.#worker;
    const why = reason ? `refused: ${reason}` : "can't be reached";
    return this.#giveUp(`the worker ${protocol.replace("ws", "http")}//${host} ${why}`);
  }

  /** Go back to the front, and follow no redirects, so that it relays. */
  #giveUp(reason) {
    this.#follows = false;
    this.#worker = null;
    return `${reason}; the connection continues through ${this.#front.host}. If workers can't be reached from this network, it has to allow that, or the front needs --relay`;
  }

  /** Go back to the front; with `returns` show it the secret of the session that was lost. */
  leave({ returns = false } = {}) {
    this.#worker = null;
    this.#admitted = false;
    if (!returns) this.#returning = null;
  }
}

/** Return whether browsers may require a permission of this page before it connects to a host: see local_network.js. */
export const mayNeedPermission = (hostname, { location, isSecureContext } = globalThis) =>
  Boolean(location && isSecureContext) && hostname !== location.hostname;

function withQuery(address, query) {
  const url = new URL(address);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  return url;
}

function parse(url) {
  try {
    return new URL(url);
  } catch {
    return {};
  }
}
