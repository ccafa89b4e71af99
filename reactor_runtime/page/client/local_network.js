/** The permission that browsers require of a public page before it may connect to a private address. */

const LOOPBACK = /^(localhost|.+\.localhost|127\.[\d.]+|\[::1\])$/;
// 100.64 to 100.127 are addresses behind the NAT of a provider, and of VPNs.
const LOCAL =
  /^(.+\.local|10\.[\d.]+|192\.168\.[\d.]+|169\.254\.[\d.]+|172\.(1[6-9]|2\d|3[01])\.[\d.]+|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.[\d.]+|\[(f[cd]|fe[89ab]).+\])$/;

/** Return the kind of address of a host, as far as its name shows it. */
export function spaceOf(hostname) {
  if (LOOPBACK.test(hostname)) return "loopback";
  return LOCAL.test(hostname) ? "local" : "public";
}

const rank = (hostname) => ["public", "local", "loopback"].indexOf(spaceOf(hostname));

/** Return whether browsers require a permission of this page before it connects to a host; only secure pages get it. */
export const needsPermission = (hostname, { location, isSecureContext } = globalThis) =>
  Boolean(location && isSecureContext) && rank(hostname) > rank(location.hostname);

// A server that is down looks like a dismissed question.
const ASK_AGAIN_MS = 30_000;
const SPACES = { loopback: "this device", local: "the local network" };

export class LocalNetwork {
  #fetch;
  #permissions;
  // Before this time the browser does not ask again: the visitor may have dismissed the question.
  #asksAt = 0;
  // Some pages need no permission: private ones, at an address that only the browser knows.
  #reached = false;

  constructor({ fetch = globalThis.fetch, permissions = globalThis.navigator?.permissions } = {}) {
    this.#fetch = fetch;
    this.#permissions = permissions;
  }

  /**
   * Resolve to "" if the page may connect to the server of a socket address, else to what the visitor can do. With
   * `onAsk`, which gets a text to show meanwhile, the browser asks for the permission.
   */
  async check({ href, host, hostname }, onAsk = null) {
    const space = spaceOf(hostname);
    const read = () => this.#read(space);
    if (this.#reached || /unknown|granted/.test(await read())) return "";
    if (onAsk && performance.now() >= this.#asksAt && (await read()) === "prompt") {
      onAsk(`The browser asks whether this page may connect to ${SPACES[space]}: allow it`);
      const url = new URL("live", href.replace(/^ws/, "http"));
      // The socket does not name the kind of address, without which http is refused as mixed content.
      const options = { mode: "no-cors", targetAddressSpace: space };
      this.#reached = await this.#fetch.call(globalThis, url.href, options).then(
        () => true,
        () => false,
      );
      this.#asksAt = performance.now() + ASK_AGAIN_MS;
      if (this.#reached || (await read()) === "granted") return "";
    }
    return refusal(host, SPACES[space], await read());
  }

  /** Resolve to granted, denied, prompt, or unknown in a browser that has no such permission. */
  async #read(space) {
    // The second is the name until Chrome 144; TypeScript knows neither.
    for (const name of /** @type {any[]} */ ([`${space}-network`, "local-network-access"])) {
      try {
        return (await this.#permissions.query({ name })).state;
      } catch {}
    }
    return "unknown";
  }
}

const refusal = (host, where, state) => {
  const settings = "allow it in the site settings, at the icon before the address";
  const toDo = state === "denied" ? settings : "if the server is running, reload the page and allow it";
  const isFramed = globalThis.top && globalThis.top !== globalThis.self;
  const framed = isFramed ? '; an iframe also needs allow="local-network-access; loopback-network"' : "";
  return `This page has no permission to connect to ${where}, where ${host} is: ${toDo}${framed}`;
};
