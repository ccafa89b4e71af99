/** Turns sound on and off: see reactor.d.ts. The mixer is loaded with the first start(). */

export class Speaker {
  /** Null before sound was on. */
  mixer = null;
  #tracks = [];
  #opening = null;
  #context = null;
  #volume = 1;
  #onChange;

  /** `onChange()` is called when the sound goes on or off. */
  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** Names of the audio tracks; setting them starts a session. */
  get tracks() {
    return this.#tracks;
  }

  set tracks(names) {
    this.#tracks = names;
    this.mixer?.restart(names);
  }

  get on() {
    return this.mixer !== null && this.#context.state === "running";
  }

  get lagMs() {
    return this.mixer?.lagMs ?? null;
  }

  get volume() {
    return this.#volume;
  }

  set volume(volume) {
    this.#volume = volume;
    if (this.mixer) this.mixer.volume = volume;
  }

  async start() {
    // First, because browsers require a recent gesture.
    const resumed = this.#context?.resume();
    this.#opening ??= this.#open();
    await this.#opening.catch((error) => {
      this.close();
      this.#opening = this.#context = null;
      throw error;
    });
    await resumed;
  }

  async stop() {
    this.mixer?.restart();
    await this.#context?.suspend();
  }

  close() {
    this.#context?.close();
  }

  /** Play a WAV, as returned by readMedia; dropped while off. */
  play(media) {
    if (this.on) this.mixer?.play(media);
  }

  async #open() {
    if (!globalThis.isSecureContext) throw (await import("./mixer.js")).soundUnavailable();
    const context = new AudioContext();
    this.#context = context;
    const resumed = context.resume();
    const { Mixer } = await import("./mixer.js");
    await Promise.all([resumed, context.audioWorklet.addModule(new URL("./audio_worklet.js", import.meta.url))]);
    this.mixer = new Mixer(context, this.#volume);
    context.onstatechange = () => {
      // The context's clock stood still: arrival times before that are useless.
      if (this.on) this.mixer.restart();
      if (this.on) this.mixer.forgetClocks();
      this.#onChange();
    };
  }
}
