/** The client of a Reactor server. Names that end in Ms are in milliseconds, names that end in S in seconds. */

/**
 * A type of the platform, such as HTMLCanvasElement; `Otherwise` if the compiler does not have it, as in Node without
 * "dom".
 */
type Platform<Name extends string, Otherwise = never> = typeof globalThis extends {
  [Key in Name]: { prototype: infer Type };
}
  ? Type
  : Otherwise;
type Canvas = Platform<"HTMLCanvasElement"> | Platform<"OffscreenCanvas">;

/** What a client may do: drive the model, or watch. */
export type Role = "controller" | "viewer";

/** The options of `connect`. */
export interface Options {
  /** The server's token, if it requires one; default: `?token=` of the address. */
  token?: string | null;
  /** Default: `?role=` of the address, or "controller". */
  role?: Role | null;
  /**
   * The session to watch on a server with several. Default: `?session=` of the address, or the one that has run
   * longest.
   */
  session?: string | null;
  /** The code of a session with several seats: the one to join, or to open. Default: `?room=` of the address. */
  room?: string | null;
  /** The number of the seat to take there; for a viewer, to watch. Default: `?seat=` of the address, or the first free. */
  seat?: number | null;
  /** Receive the sessions of others while waiting. */
  watch?: boolean;
  /** Let the model make steps in `step()` alone. Default: whether the address has `?generation=stepped`. */
  stepped?: boolean;
  /**
   * The WebSocket class on a platform without one, such as Node before version 22: for example that of the package
   * `ws`.
   */
  WebSocket?: unknown;
}

/**
 * Start a session with the server at `url`: the address of its page or socket, with or without `?token=` and `?role=`;
 * optional in a page of the server. Returns at once: the session connects, waits for its turn and reconnects by itself.
 * Throws TypeError for an invalid address or role.
 */
export function connect<Model extends Modelled = AnyModel>(
  url?: string | Platform<"URL">,
  options?: Options,
): Session<Model>;

/**
 * The types of a model, for `connect<MyModel>(url)`; `reactor schema --format typescript` writes them. `Session`
 * without an argument is a session with any model.
 */
export interface Modelled {
  state: object;
  events: object;
  messages: object;
  /** The types of the messages in the replies to events that declare them, null for none. */
  replies?: object;
  /** Their names: video and audio tracks that the model sends, video and audio tracks that it takes. */
  tracks: { shown: string; heard: string; filmed: string; recorded: string };
}

/** A model without known types. */
export interface AnyModel {
  state: Record<string, any>;
  events: Record<string, any>;
  messages: Record<string, any>;
  tracks: { shown: string; heard: string; filmed: string; recorded: string };
}

/** The arguments of an event; optional if all parameters are. */
type Carried<Data, Rest extends unknown[] = []> = {} extends Data ? [data?: Data, ...Rest] : [data: Data, ...Rest];

/** A video or audio track of the model. */
export interface Track {
  name: string;
  kind: "video" | "audio";
  /** "out": from the model to the client; "in": from the client to the model. */
  direction: "in" | "out";
  /** Of an audio track. */
  sampleRate?: number;
}

/** The parameters of an event, and what its reply may be. */
export interface EventSchema {
  description: string;
  /** The state field that the event sets. */
  field: string | null;
  /** A JSON Schema of the event's data. */
  parameters: Record<string, unknown>;
  /** The types of the message in the event's reply, null for none; null if they are not declared. */
  replies?: (string | null)[] | null;
  /** In a session with several seats: whether only the first of them may send it. */
  host?: boolean;
}

/** The events, the messages and the state of the model. */
export interface Schema {
  events: Record<string, EventSchema>;
  messages: Record<string, { description: string; data: Record<string, unknown> }>;
  /** JSON Schemas of the fields of the state that clients can't set. */
  state?: Record<string, Record<string, unknown>>;
  /** A hash of the types of tracks, events, messages and state. */
  types?: string;
}

/** The reason of the end of a session; see Status. */
export type EndReason =
  | "left"
  | "turn_over"
  | "idle"
  | "finished"
  | "lost"
  | "model_error"
  | "model_died"
  | "restarting"
  | "server_stopping"
  | "closed"
  | "failed"
  | "refused"
  | "unreachable";

/** The code of a server's error: see docs/wire-messages.md. Models have other codes. */
export type ErrorCode =
  | "invalid_json"
  | "invalid_message"
  | "unknown_event"
  | "invalid_event"
  | "not_controller"
  | "rate_limited"
  | "unresolved_upload"
  | "bad_media"
  | "unknown_track"
  | "not_ready"
  | "refused"
  | "command_failed"
  | "failed"
  | "internal_error"
  | "model_error"
  | (string & {});

/** The server's limits; null: no limit. */
export interface Limits {
  max_text_bytes: number;
  max_media_bytes: number;
  max_upload_bytes: number;
  max_session_s: number | null;
  idle_timeout_s: number | null;
  resume_grace_s: number | null;
}

/** The data of reactor.welcome, with the names of the wire. */
export interface Welcome<Model extends Modelled = any> {
  protocol: string;
  /** Null: no session runs. */
  session: string | null;
  /** The id of this connection in the logs of the server; absent on an older one. */
  client?: string;
  role: Role;
  /** The seat that this client has, or watches, and how many a session has; absent on an older server. */
  seat?: number;
  seats?: number;
  /** The code by which others find a session with several seats; null for one who lacks the code of a private one. */
  room?: string | null;
  model: string;
  tracks: { name: string; kind: "video" | "audio"; direction: "in" | "out"; sample_rate?: number }[];
  schema: Schema;
  state: Model["state"];
  resume: string | null;
  upload_key: string | null;
  /** What makes steps; absent on an older server, as are the next two. */
  generation?: "realtime" | "stepped";
  /** The message with the reward of a step, and the names of its fields. */
  environment?: Record<string, string>;
  /** Every client of the session may send events. */
  shared?: boolean;
  limits: Limits;
  /** The names of the encodings of video tracks that the server has; absent on an older one. */
  encodings?: string[];
  /** Null on a server without `--reload`; absent on an older one. */
  reload?: ReloadNotice | null;
}

/** Who has which seat in a session with several: the ids of clients, null in a free one; `away` may come back. */
export interface Seats {
  room: string | null;
  clients: (string | null)[];
  away: number[];
}

/** The last reload of the project's files; see docs/wire-messages.md. Members that the status does not have are null. */
export interface ReloadNotice {
  status: "applied" | "loading" | "restarting" | "failed";
  /** Why the new code is not applied in place: one line. */
  reason: string | null;
  /** The last line that the model printed, and its progress from 0 to 1. */
  detail: string | null;
  progress: number | null;
  error: { message: string; hint: string | null; file: string | null; line: number | null; text: string | null } | null;
}

/** The server's metrics, once a second: see docs/wire-messages.md. */
export interface Stats {
  queue: number;
  /** Clients that receive the session, without its controller. */
  watching?: number;
  step_ms?: number;
  arrive_ms?: number;
  queue_ms?: number;
  encode_ms?: number;
  back_ms?: number;
  hold_ms?: number;
  late_ms?: number;
  age_ms?: number;
  reserve_ms?: number;
  rung: number;
  quality: number;
  scale: number;
  /** "insecure": over this network video is needed, which a page decodes only in a secure context. */
  why: "full" | "network" | "client" | "codec_busy" | "insecure" | "unsupported" | "relayed";
  /** The encoding of the frames, and their rate, for a client that can decode video. */
  codec?: string;
  kbit_s?: number;
  fps: Record<string, number>;
  emitted: number;
  sent: number;
  skipped: number;
  window: Record<string, number>;
  rtt_ms: number | null;
  send_ms: number | null;
  inputs?: Record<string, { came: number; taken: number; wanted: number | null }>;
  inputs_lost?: Record<string, number>;
}

/** The state of the connection and of the session, by its `phase`. */
export type Status =
  /** `detail` is there while the browser asks the visitor for a permission. */
  | { phase: "connecting"; role: null; detail?: string }
  /** The model is loading; `detail` is the last line of its log, `progress` is from 0 to 1, or null if it is unknown. */
  | {
      phase: "loading";
      role: null;
      model?: string;
      detail?: string;
      progress?: number | null;
      elapsedS: number;
    }
  /**
   * In the wait queue, with the position, and with a role if the client watches meanwhile; `waitS` is the estimated time
   * from this status until the session begins, and `detail` why no other session fits on the loaded model, if that is
   * why. As a viewer: nobody controls the model; `reason` and `detail` are those of the last session's end.
   */
  | {
      phase: "waiting";
      role: Role | null;
      position?: number;
      length?: number;
      waitS?: number;
      reason?: EndReason;
      detail?: string;
    }
  | { phase: "connected"; role: Role }
  /**
   * The connection broke, or an attempt failed: then `opened` is false. `detail` is the reason if it is known;
   * `retryAt` is on performance.now()'s clock.
   */
  | { phase: "reconnecting"; role: null; code: number; detail: string; opened: boolean; retryAt: number }
  /**
   * `reason` is that of the wire (`finished`, `turn_over`, `idle`, `model_error`, `model_died`, `restarting`,
   * `server_stopping`, …), `closed` after close(), `failed` if the model cannot be served. Outside of pages `refused` if
   * the server rejects this client, and `unreachable` if there is no server at the address; pages repeat failed
   * attempts. `detail` is a message for people.
   */
  | { phase: "ended"; role: null; reason: EndReason; detail: string };

/** For a known model, a union by type. */
export type Message<Model extends Modelled = any> = {
  [Type in keyof Model["messages"] & string]: { type: Type; data: Model["messages"][Type] };
}[keyof Model["messages"] & string];

/** The reply to an event that was applied. */
export interface Reply<Model extends Modelled = any> {
  /** The event's number: frames with at least this `applied` show it. */
  n: number;
  /** The return value of the handler. */
  message?: Message<Model>;
}

/** The reply to an event; its message is of a type that the model declares for the event, if it declares any. */
export type ReplyTo<Model extends Modelled, Event extends string> = Model extends {
  replies: { [Key in Event]: infer Type };
}
  ? Reply<Model> & { message: Type extends null ? undefined : Extract<Message<Model>, { type: Type }> }
  : Reply<Model>;

/** An invalid parameter of an event. */
export interface FieldError {
  /** `event.parameter` and deeper: `set_pose.pose.x`. */
  path: string;
  message: string;
}

/** What comes with a frame or a piece of sound. */
export interface FrameHeader {
  track: string;
  /** Per track, from 0 in each session; gaps are frames that were skipped for this client. */
  seq: number;
  /** Presentation time, in seconds since the session's start. */
  ptsS: number;
  /** When the model put out the frame, by the server's wall clock: microseconds since the epoch. */
  wallUs: number;
  /** Number of the last event that was applied before this frame was made. */
  applied: number;
  /** The first of its track in a session or after a flush. */
  afterFlush: boolean;
  /** The latest frame, sent to a client that joins. */
  held: boolean;
  /** What the model sent with the frame; null for nothing. Bytes are `{b: base64}`. */
  metadata: Record<string, any> | null;
  /**
   * When the frame was received, decoded for a canvas and first shown, on performance.now()'s clock; set as it happens.
   */
  receivedAt?: number;
  decodedAt?: number;
  paintedAt?: number;
}

/** A frame as received. */
export interface Frame extends FrameHeader {
  /** The file as received: a JPEG, or what `view({ codecs })` asked for. */
  jpeg: Uint8Array;
  /** Decoded; null in Node. Call `close()` on it after use. */
  bitmap: Platform<"ImageBitmap"> | null;
}

/** The arguments of `step()`: `n` steps, from the state of a reset if wanted, with these events and inputs. */
export interface StepRequest<Model extends Modelled = AnyModel> {
  n?: number;
  reset?: boolean;
  /** From 0 to 2³² - 1. */
  seed?: number;
  state?: Partial<Model["state"]>;
  commands?: [type: keyof Model["events"] & string, data?: object][];
  /**
   * Frames or pieces of sound of input tracks, which the model reads in these steps: an ImageData, without loss, or a
   * JPEG, NPY or WAV file. Not with a reset or a seed.
   */
  media?: { [track: string]: (Platform<"ImageData"> | Platform<"Blob"> | ArrayBuffer | ArrayBufferView)[] };
}

/** What was made in steps, in order; `state` are the public fields after them. */
export interface StepsResult<Model extends Modelled = AnyModel> {
  /** The number of the newest step since the last reset. */
  step: number;
  /** How many were made, in `elapsedS` seconds of the model. */
  steps: number;
  elapsedS: number;
  /** `bitmap` is null; `readMedia(frame.jpeg.buffer)` returns the pixels of raw frames. */
  frames: Frame[];
  sound: Sound[];
  messages: Message<Model>[];
  state: Readonly<Model["state"]>;
}

/** A piece of sound as received; `samples` are interleaved. */
export interface Sound extends FrameHeader {
  sampleRate: number;
  channels: number;
  samples: Int16Array;
}

/** What goes with a frame or a piece of sound to the model, as JSON; bytes go as they are. At most 65,243 bytes. */
export type Metadata = object | ArrayBuffer | ArrayBufferView;

/** The options of `publish` for a file. */
export interface FileOptions {
  metadata?: Metadata | null;
  /** When it was captured: microseconds since the epoch, by the clock of this client; now. */
  captureTimeUs?: number;
}

/** The options of `publish` for a camera, a microphone, a canvas or another source. */
export interface CaptureOptions {
  /** A function is called for each frame or piece of sound that is sent. */
  metadata?: Metadata | null | (() => Metadata | null);
  /** Maximum frame rate; 30. Lower if the model takes fewer frames. */
  fps?: number;
  /** Maximum size; larger frames are scaled down with their aspect ratio. 4096 each. */
  width?: number;
  height?: number;
  /** JPEG quality, from 0 to 1; 0.85. */
  quality?: number;
}

/** The `detail` of each event of a Capture. */
export interface CaptureEvents {
  /** A frame or a piece of sound was sent; `level` is its loudest sample, from 0 to 1. */
  sent: { bytes: number; width: number; height: number } | { bytes: number; sampleRate: number; level: number };
  /** A frame or a piece of sound was skipped: the send window is full. */
  skipped: Record<string, never>;
  /** There is no session to send to, reported repeatedly; sending continues with the next session. */
  nobody: Record<string, never>;
  /** The end; `error` is the reason if it failed. */
  ended: { error: Error | null };
}

/** A source that is being published. */
export interface Capture extends Emitter<CaptureEvents> {
  /**
   * Whether it continues while the page is hidden: sound does, and a MediaStreamTrack in browsers whose workers can
   * read its frames.
   */
  readonly background: boolean;
  /** Stop publishing. The source continues: stop() of its track turns a camera off. */
  stop(): void;
}

/** The `detail` of each event of a Session. */
export interface SessionEvents<Model extends Modelled = any> {
  /** Each change of `status`. */
  status: Status;
  /** A session began or was resumed; `tracks`, `schema` and `state` of the Session are those of this one. */
  session: Welcome<Model>;
  /** A reload changed the model: the new `tracks` and `schema` of the Session. `state` follows if its fields changed. */
  contract: { tracks: Track[]; schema: Schema };
  /** A reload was applied, has failed, or takes a while. */
  reload: ReloadNotice;
  /** A client has taken a seat, has left it, or is away. */
  seats: Seats;
  /** A `keep()` was answered: the path of the recording, or null with the reason and what to do. */
  kept: { file: string | null; message: string | null; hint: string | null };
  /** The public fields that changed. */
  state: Partial<Model["state"]>;
  /** A message of the model. */
  message: Message<Model>;
  /** An error of the server, also if a send() rejects with it. */
  error: { code: ErrorCode; message: string; fields?: FieldError[]; event?: string };
  /** Once a second; see docs/wire-messages.md. */
  stats: Stats;
  /** The reply to a ping. */
  pong: { t: number | string; server_us: number };
  /** A frame was painted on an attached canvas; `skipped` frames before it were not. */
  painted: FrameHeader & { canvas: Canvas; skipped: number; at: number };
  /** A piece of sound was received, also while sound is off. */
  sound: Sound;
  /** Sound was turned on or off. */
  listening: boolean;
  /** A frame was received; its times are set when it is decoded and shown, or not at all if a newer one replaces it. */
  arrived: FrameHeader;
  /**
   * A frame arrived, with its JPEG; or with its piece of MP4 of a video stream, and whether decoding can begin with it.
   */
  encoded: { header: FrameHeader; bytes: ArrayBuffer; isKey?: boolean };
  /** Size of a received frame or piece of sound in bytes. */
  received: number;
  /** The turn ends in `seconds`; null: it does not. */
  ending: { seconds: number | null };
  /** The turn ends in `seconds` without here(), an event or media; null: it does not. */
  idle: { seconds: number | null };
  /** The server is about to stop. */
  stopping: { seconds: number; message: string };
  warning: { message: string };
  preparing: { detail: string; progress: number | null };
  /** The controller's connection broke, and its session is kept. */
  away: { seconds: number };
  /** The controller came back. */
  resumed: { session: string };
  /** The machine of this client's session failed; the client waits in the queue, at its head. */
  lost: { message: string };
  /** A message could not be used. */
  ignored: { what: string; why: unknown };
}

/** A CustomEvent, if the platform has it. */
type Emitted<Detail> = Omit<Platform<"CustomEvent", Platform<"Event", { readonly type: string }>>, "detail"> & {
  readonly detail: Detail;
};
type Listener<Detail> = ((event: Emitted<Detail>) => void) | { handleEvent(event: Emitted<Detail>): void } | null;

/** An EventTarget with typed events. */
interface Emitter<Events> {
  addEventListener<Name extends keyof Events & string>(
    name: Name,
    listener: Listener<Events[Name]>,
    options?: boolean | { capture?: boolean; once?: boolean; passive?: boolean; signal?: Platform<"AbortSignal"> },
  ): void;
  removeEventListener<Name extends keyof Events & string>(
    name: Name,
    listener: Listener<Events[Name]>,
    options?: boolean | { capture?: boolean },
  ): void;
  dispatchEvent(event: Platform<"Event">): boolean;
}

/** A session with a model; `connect` makes it. */
export interface Session<Model extends Modelled = any> extends Emitter<SessionEvents<Model>> {}

export class Session<Model extends Modelled = any> {
  private constructor();
  readonly status: Status;
  /** Null without a session. */
  readonly role: Role | null;
  /** Whether the server accepts events of this client now: of the controller, and of every client of a shared session. */
  readonly maySend: boolean;
  /** The session's id on the server; null without a session. */
  readonly id: string | null;
  readonly model: string | null;
  /** The data of the last welcome; here the part about seats, with who has which. */
  readonly welcome: Readonly<Partial<Pick<Welcome, "seat" | "seats" | "room"> & Omit<Seats, "room">>>;
  readonly tracks: Track[];
  readonly schema: Schema;
  /** Null before the first session, and on a server without `--reload`. */
  readonly lastReload: ReloadNotice | null;
  /** Empty before the first session. */
  readonly limits: Readonly<Partial<Limits>>;
  /** The model's public fields; a new object after each change, empty before the first session. */
  readonly state: Readonly<Model["state"]>;
  readonly speaker: Speaker;
  /** From the last input to the first frame that shows it, and the median of nine; null before the first. */
  readonly inputDelayMs: number | null;
  readonly medianInputDelayMs: number | null;
  /** The server's latest metrics of the session; empty before the first, and without a session. */
  readonly stats: Readonly<Partial<Stats>>;
  /** The round trip to the server; null before the first pong. */
  readonly rttMs: number | null;

  /**
   * Wait until the session has begun in the requested role; resolves to the session itself. Rejects with the signal's
   * reason, with SessionEnded if the session was closed, its turn is over or the model cannot be served, and outside of
   * pages with ConnectError if there is no server at the address, or one that rejects this client.
   */
  ready(options?: { signal?: Platform<"AbortSignal"> }): Promise<this>;

  /**
   * Send an event of the model, and wait until it was applied. Before a turn it waits for the turn, and after a broken
   * connection until the session is resumed. Rejects with EventError if the server refuses the event, with
   * ConnectionLost if the connection breaks before the reply or the server did not keep the session, with SessionEnded
   * if the session is over, with TypeError for a reserved name and RangeError for data over the server's limit.
   * `inputAt` is the time of the user's input on performance.now()'s clock, for `inputDelayMs`.
   */
  send<Type extends keyof Model["events"] & string>(
    type: Type,
    ...rest: Carried<Model["events"][Type], [options?: { inputAt?: number }]>
  ): Promise<ReplyTo<Model, Type>>;
  /**
   * Make exactly `n` steps of a stepped session, 1 by default, and return all that the model has made in them. Before
   * them, with `reset` or a `seed` the session begins anew, `state` sets fields, and `commands` are events with their
   * data. Rejects with EventError, whose `made` has the steps before, if the server refuses a step, and as send() does.
   */
  step(request?: StepRequest<Model>): Promise<StepsResult<Model>>;
  /**
   * Send an event without waiting for a reply. Returns false without sending it while this client controls no session.
   * Throws RangeError for data over the server's limit.
   */
  notify<Type extends keyof Model["events"] & string>(type: Type, ...rest: Carried<Model["events"][Type]>): boolean;

  /**
   * Iterate over the model's messages from now on; with 1,000 waiting, the oldest is dropped. Ends as frames() does.
   */
  messages(): AsyncIterableIterator<Message<Model>>;
  /**
   * Iterate over the frames of a video track, the first one by default; each step gives the newest frame. As a viewer
   * this continues over sessions and broken connections. As a controller it belongs to one session: it ends when that
   * is closed or finished, and rejects with SessionEnded or ConnectionLost after another end. Rejects with TypeError
   * for a track that the model does not have. Because each frame has a file, the server sends JPEGs meanwhile; with
   * `jpeg: false` it may send video, whose frames have none.
   */
  frames(track?: Model["tracks"]["shown"] | null, options?: { jpeg?: true }): AsyncIterableIterator<Frame>;
  frames(
    track: Model["tracks"]["shown"] | null,
    options: { jpeg: boolean },
  ): AsyncIterableIterator<Omit<Frame, "jpeg"> & { jpeg: Uint8Array | null }>;
  /**
   * Wait for the newest frame; with `after`, the reply to an event, for one made with that event. Rejects with
   * SessionEnded if the session is over before, with ConnectionLost if it was not kept, and with the signal's reason.
   */
  frame(options?: {
    track?: Model["tracks"]["shown"] | null;
    after?: Reply<Model>;
    signal?: Platform<"AbortSignal">;
  }): Promise<Frame>;
  /**
   * Show a video track on a canvas, null for the first track. Returns a function that ends it. Throws TypeError for a
   * track that the model does not have; if the tracks are not known yet, the console shows this error later.
   */
  attach(track: Model["tracks"]["shown"] | null, canvas: Canvas): () => void;
  /**
   * Return tracks, all by default, as a stream for a <video>, a recorder or a call. Turns sound on if an audio track is
   * among them.
   */
  stream(...tracks: (Model["tracks"]["shown"] | Model["tracks"]["heard"])[]): Promise<Platform<"MediaStream">>;

  /**
   * Send a JPEG or a WAV. Resolves to true when it was sent, to false if it was skipped: a newer frame replaced it,
   * more than a second of sound is unread, or there is no session. Frames are sent as fast as the server reads them, so
   * a program that awaits each one makes no more than that. Rejects with TypeError for a track that does not take it,
   * and for wrong metadata, and with RangeError for a file or metadata over the limit.
   */
  publish(
    track: Model["tracks"]["filmed"] | Model["tracks"]["recorded"],
    source: ArrayBuffer | ArrayBufferView | Platform<"Blob">,
    options?: FileOptions,
  ): Promise<boolean>;
  /**
   * Publish what a camera, a video or a canvas shows, or what a microphone or an AudioNode plays, until stop(), the end
   * of the source or close(). A worker encodes the newest frame when the send window has room and the model takes it.
   * Rejects for a source that cannot be read.
   */
  publish(
    track: Model["tracks"]["filmed"] | Model["tracks"]["recorded"],
    source: Platform<"MediaStreamTrack"> | Platform<"HTMLVideoElement"> | Canvas | Platform<"AudioNode">,
    options?: CaptureOptions,
  ): Promise<Capture>;
  /** Upload a file. The result stands for the file in an event's data. Rejects with UploadError. */
  upload(file: Platform<"Blob"> | ArrayBuffer | ArrayBufferView, name?: string): Promise<{ upload: string }>;

  /**
   * Limit what the server sends; replaces the last call. Hidden pages pause video by themselves. `codecs` are the
   * encodings of video to prefer to JPEG, best first: with `["raw"]` frames lose nothing.
   */
  view(wanted?: {
    paused?: boolean;
    maxFps?: number;
    tracks?: string[] | null;
    codecs?: string[] | null;
    /** The seat that a viewer watches from now on. */
    seat?: number;
  }): void;
  /** Keep the session: somebody is there. */
  here(): void;
  /** Reload the project's files, on a server with `--reload`. */
  reload(): void;
  /** Save a recording of the session up to now, on a server with `--reload`; the event `kept` has the answer. */
  keep(): void;
  /** Connect now instead of at `retryAt`, or again after the end of a turn. */
  reconnect(): void;
  /** Leave for good: iterators end, and the client does not reconnect. */
  close(): void;
}

/** Plays the sound of a session. */
export interface Speaker {
  readonly on: boolean;
  /** Names of the session's audio tracks. */
  readonly tracks: string[];
  /** Delay of a sound after its frame, negative before it; null while unknown. */
  readonly lagMs: number | null;
  /** From 0 for silence to 1 for full volume. */
  volume: number;
  /** Turn sound on; browsers require a click or a key press. Rejects with Error if there can be no sound. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * All errors of this client except TypeError and RangeError, which report a wrong call. `name` is the class name;
 * `instanceof` includes errors of another copy of this module.
 */
export class ClientError extends Error {
  constructor(message: string);
  code: string;
}

/**
 * There is no server at the address, or it rejects this client. Pages do not get this error: they repeat the attempt.
 */
export class ConnectError extends ClientError {
  code: "unreachable" | "refused" | "busy";
}

/** The server rejects this client: its token or its origin is wrong, or there is no such seat. */
export class Refused extends ConnectError {
  code: "refused";
}

/** The server is full; the client tries again. */
export class Busy extends ConnectError {
  code: "busy";
}

/** The server answered an event with an error. */
export class EventError extends ClientError {
  constructor(error: { code?: string; message?: string; fields?: FieldError[]; event?: string; made?: any });
  code: ErrorCode;
  /** The invalid parameters. */
  fields: FieldError[];
  /** The event's name. */
  event: string;
  /** Of requested steps: those that were made before; else null. */
  made: StepsResult<any> | null;
}

/** The session is over; docs/wire-messages.md lists the reasons after which another one follows. */
export class SessionEnded extends ClientError {
  constructor(reason: EndReason, detail: string);
  code: "session_ended";
  /** That of the status. */
  reason: EndReason;
}

/** The server did not take a file. */
export class UploadError extends ClientError {
  constructor(status: number, message: string);
  code: "upload_failed";
  /** The HTTP status; 0 without an answer. */
  status: number;
}

/** The connection broke before the reply, so that the effect of the event is unknown; or the session was not kept. */
export class ConnectionLost extends ClientError {
  code: "connection_lost";
}

/** A binary message could not be read. */
export class MediaError extends ClientError {
  code: "bad_media";
}

/**
 * Read a binary message: the header, the pixels of an NPY, the samples of a WAV; of a piece of MP4 the sample, and if it
 * is a key `config` as VideoDecoder.configure takes it. Throws MediaError for a malformed one.
 */
export function readMedia(message: ArrayBuffer):
  | { kind: "jpeg"; header: FrameHeader | null }
  | { kind: "raw"; header: FrameHeader; width: number; height: number; pixels: Uint8Array }
  | {
      kind: "mp4";
      isKey: boolean;
      header: FrameHeader;
      config: { codec: string; description: Uint8Array; width: number; height: number } | null;
      sample: Uint8Array;
    }
  | { kind: "wav"; header: FrameHeader; sampleRate: number; channels: number; samples: Int16Array };
