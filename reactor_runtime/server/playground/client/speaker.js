/** Turns sound on and off, and sets the volume: see reactor.d.ts. The mixer is loaded with the first start(). */

export class Speaker {
  /** What plays, once sound was on: a Mixer. */
  mixer = null;
  #tracks = [];
  #opening = null;
  #context = null;
  #volume = 1;
  #changed;

  /** `changed()` is called when the sound goes on or off, whoever did it. */
  constructor(changed) {
    this.#changed = changed;
  }

  /** Names of the session's audio tracks; setting them begins a new session. */
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
    const resumed = this.#context?.resume(); // before anything is waited for: the gesture is soon forgotten
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

  /** The context's clock stood still: what came before says nothing of when things come. */
  #goOn() {
    this.mixer.restart();
    this.mixer.forgetClocks();
  }

  /** Play what readMedia gave for a WAV; while off it is dropped. */
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
      if (this.on) this.#goOn();
      this.#changed();
    };
  }
}
