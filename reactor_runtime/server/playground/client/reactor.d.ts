/** The client of a Reactor server. Times are in milliseconds where a name ends in Ms, in seconds where it ends in S. */

/**
 * A type of the platform, such as HTMLCanvasElement: `Otherwise` where a program is compiled without it, as in Node
 * without "dom".
 */
type Platform<Name extends string, Otherwise = never> = typeof globalThis extends {
  [Key in Name]: { prototype: infer Type };
}
  ? Type
  : Otherwise;
type Canvas = Platform<"HTMLCanvasElement"> | Platform<"OffscreenCanvas">;

export type Role = "controller" | "viewer";

export interface Options {
  /** Where the server wants one; also read from `?token=` of the address. */
  token?: string | null;
  /** "controller", unless `?role=` of the address says otherwise. */
  role?: Role | null;
  /**
   * The session to watch where a server has several; the one that has run longest, unless `?session=` of the address
   * says otherwise.
   */
  session?: string | null;
  /** See the sessions of others while waiting in line. */
  watch?: boolean;
  /**
   * What to connect with where there is none, as in Node before version 22: the class of the package `ws`, for example.
   */
  WebSocket?: unknown;
}

/**
 * Begin with the server at `url`: the address of its page or of its socket, with `?token=` and `?role=` or without; in
 * a page of the server's own it may be left out. Returns at once: the session connects, waits in line and comes back by
 * itself. Throws TypeError for what is no address and no role.
 */
export function connect<Model extends Modelled = AnyModel>(
  url?: string | Platform<"URL">,
  options?: Options,
): Session<Model>;

/**
 * What a model has, for `connect<MyModel>(url)`: `reactor schema --format typescript` writes it of a model. `Session`
 * alone is the type for a session of any model.
 */
export interface Modelled {
  state: object;
  events: object;
  messages: object;
  /** Their names: pictures and sound the model sends, pictures and sound it takes. */
  tracks: { shown: string; heard: string; filmed: string; recorded: string };
}

/** A model of which nothing is known. */
export interface AnyModel {
  state: Record<string, any>;
  events: Record<string, any>;
  messages: Record<string, any>;
  tracks: { shown: string; heard: string; filmed: string; recorded: string };
}

/** What goes with an event: nothing need be said where all may be left out. */
type Carried<Data, Rest extends unknown[] = []> = {} extends Data ? [data?: Data, ...Rest] : [data: Data, ...Rest];

export interface Track {
  name: string;
  kind: "video" | "audio";
  /** "out": from the model to the client; "in": what the model takes. */
  direction: "in" | "out";
  /** Of sound. */
  sampleRate?: number;
}

export interface EventSchema {
  description: string;
  /** The state field that the event sets. */
  field: string | null;
  /** A JSON Schema of the event's data. */
  parameters: Record<string, unknown>;
}

export interface Schema {
  events: Record<string, EventSchema>;
  messages: Record<string, { description: string; data: Record<string, unknown> }>;
}

/** Why a session has ended; see Status. */
export type EndReason =
  | "left"
  | "turn_over"
  | "idle"
  | "finished"
  | "lost"
  | "model_error"
  | "model_died"
  | "server_stopping"
  | "closed"
  | "failed"
  | "refused"
  | "unreachable";

/** The code of an error of the server's: see docs/wire.md. A model has codes of its own besides. */
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
  | "internal_error"
  | "model_error"
  | (string & {});

/** The server's limits; a time that is null is without one. */
export interface Limits {
  max_text_bytes: number;
  max_media_bytes: number;
  max_upload_bytes: number;
  max_session_s: number | null;
  idle_timeout_s: number | null;
  resume_grace_s: number | null;
}

/** The server's figures, once a second: docs/wire.md explains each. */
export interface Stats {
  queue: number;
  step_ms?: number;
  arrive_ms?: number;
  queue_ms?: number;
  encode_ms?: number;
  back_ms?: number;
  hold_ms?: number;
  late_ms?: number;
  rung: number;
  quality: number;
  scale: number;
  why: "full" | "network" | "client";
  fps: Record<string, number>;
  emitted: number;
  sent: number;
  skipped: number;
  window: Record<string, number>;
  rtt_ms: number | null;
  send_ms: number | null;
  inputs?: Record<string, { came: number; taken: number; wanted: number | null }>;
}

export type Status =
  | { phase: "connecting"; role: null }
  /** The model loads; `detail` is the last line it logged. */
  | { phase: "loading"; role: null; detail?: string; elapsedS: number }
  /**
   * In line, with its place, and with a role for who watches meanwhile. As a viewer: nobody controls the model;
   * `reason` and `detail` say why the session before has ended.
   */
  | { phase: "waiting"; role: Role | null; position?: number; length?: number; reason?: EndReason; detail?: string }
  | { phase: "connected"; role: Role }
  /**
   * The connection broke, or an attempt failed, where `opened` is false; `detail` is the reason, where it is known;
   * `retryAt` is on performance.now()'s clock.
   */
  | { phase: "reconnecting"; role: null; code: number; detail: string; opened: boolean; retryAt: number }
  /**
   * `reason` is that of the wire (`finished`, `turn_over`, `idle`, `model_error`, `model_died`, `server_stopping`, …),
   * `closed` when this client closed it, `failed` when the model can't be served. Outside of pages `refused` when the
   * server does not accept this client, and `unreachable` when there is no server at the address; in a page an attempt
   * that fails is repeated. `detail` is a line for people.
   */
  | { phase: "ended"; role: null; reason: EndReason; detail: string };

/** Of a model that is known, the messages are told apart by their type. */
export type Message<Model extends Modelled = any> = {
  [Type in keyof Model["messages"] & string]: { type: Type; data: Model["messages"][Type] };
}[keyof Model["messages"] & string];

export interface Reply<Model extends Modelled = any> {
  /** The event's number: frames whose `applied` is at least this show it. */
  n: number;
  /** What the handler returned. */
  message?: Message<Model>;
}

export interface FieldError {
  /** `event.parameter`, and deeper: `set_pose.pose.x`. */
  path: string;
  message: string;
}

export interface FrameHeader {
  track: string;
  /** Per track, from 0 in each session; gaps are frames this client was spared. */
  seq: number;
  /** Presentation time, in seconds since the session's start. */
  ptsS: number;
  /** When the model handed the frame over, by the server's wall clock: microseconds since the epoch. */
  wallUs: number;
  /** Number of the last event applied before this frame was made. */
  applied: number;
  /** The first of its track after a flush, as is the first of a session. */
  afterFlush: boolean;
  /** The picture that was on screen already, sent to a newcomer. */
  held: boolean;
  /**
   * When a frame came, was decoded for a canvas and was first shown, on performance.now()'s clock, as far as it has
   * got.
   */
  receivedAt?: number;
  decodedAt?: number;
  paintedAt?: number;
}

export interface Frame extends FrameHeader {
  /** The JPEG file as it came. */
  jpeg: Uint8Array;
  /** Decoded, where the platform can: null in Node. `close()` it when it isn't needed any more. */
  bitmap: Platform<"ImageBitmap"> | null;
}

/** A piece of sound as it came; `samples` are interleaved. */
export interface Sound extends FrameHeader {
  sampleRate: number;
  channels: number;
  samples: Int16Array;
}

export interface CaptureOptions {
  /** The most pictures a second; 30. Fewer where the model takes fewer. */
  fps?: number;
  /** The most pixels; a larger picture is scaled down into them, in its own shape. 4096 each. */
  width?: number;
  height?: number;
  /** Of the JPEG, from 0 to 1; 0.85. */
  quality?: number;
}

/** The `detail` of each event of a Capture. */
export interface CaptureEvents {
  /** A picture went out, or a piece of sound; `level` is its loudest sample, from 0 to 1. */
  sent: { bytes: number; width: number; height: number } | { bytes: number; sampleRate: number; level: number };
  /** A picture or a piece of sound was left out: the way to the model holds no more. */
  skipped: Record<string, never>;
  /** There is no session of this client's to send to; it goes on with the next one. Comes again and again. */
  nobody: Record<string, never>;
  /** It is over, `error` says why where it failed. */
  ended: { error: Error | null };
}

/** What is being published. */
export interface Capture extends Emitter<CaptureEvents> {
  /**
   * Whether it goes on while the page is hidden: sound does, and what comes from a MediaStreamTrack where browsers hand
   * its frames to workers.
   */
  readonly background: boolean;
  /** Let go of the source, which goes on itself: a camera is turned off by its track's stop(). */
  stop(): void;
}

/** The `detail` of each event of a Session. */
export interface SessionEvents<Model extends Modelled = any> {
  /** Each change of `status`. */
  status: Status;
  /**
   * A session has begun or was found again: what reactor.welcome says. `tracks`, `schema` and `state` are those of it.
   */
  session: Record<string, unknown>;
  /** The public values that changed. */
  state: Partial<Model["state"]>;
  /** A message of the model. */
  message: Message<Model>;
  /** Any error the server sends, those included that a send() rejects with. */
  error: { code: ErrorCode; message: string; fields?: FieldError[]; event?: string };
  /** Once a second; see docs/wire.md. */
  stats: Stats;
  /** The answer to a ping. */
  pong: { t: number | string; server_us: number };
  /** A frame is on a canvas that was attached; `skipped` were left out before it. */
  painted: FrameHeader & { canvas: Canvas; skipped: number; at: number };
  /** A piece of sound came, heard or not. */
  sound: Sound;
  /** Sound went on or off. */
  listening: boolean;
  /** A frame came; its times are filled in as it is decoded and shown, or never, when a newer one overtakes it. */
  arrived: FrameHeader;
  /** Bytes of a picture or piece of sound that came. */
  received: number;
  /** The turn ends in `seconds`; null: it doesn't. */
  ending: { seconds: number | null };
  /**
   * The server asks whether somebody is there: the turn ends in `seconds`, unless here(), an event or media keeps it;
   * null: it is kept.
   */
  idle: { seconds: number | null };
  /** The server is about to stop. */
  stopping: { seconds: number; message: string };
  warning: { message: string };
  /** The controller's connection broke, and its session is kept. */
  away: { seconds: number };
  /** The controller came back. */
  resumed: { session: string };
  /** Something came that couldn't be used. */
  ignored: { what: string; why: unknown };
}

/** A CustomEvent, where the platform's types have it. */
type Emitted<Detail> = Omit<Platform<"CustomEvent", Platform<"Event", { readonly type: string }>>, "detail"> & {
  readonly detail: Detail;
};
type Listener<Detail> = ((event: Emitted<Detail>) => void) | { handleEvent(event: Emitted<Detail>): void } | null;

/** An EventTarget that knows its events. */
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

export interface Session<Model extends Modelled = any> extends Emitter<SessionEvents<Model>> {}

export class Session<Model extends Modelled = any> {
  private constructor();
  readonly status: Status;
  /** Null while there is no session. */
  readonly role: Role | null;
  /** The session's name at the server; null while there is none. */
  readonly id: string | null;
  readonly model: string | null;
  readonly tracks: Track[];
  readonly schema: Schema;
  /** The server's; none before the first session. */
  readonly limits: Readonly<Partial<Limits>>;
  /**
   * The model's public values, whoever set them; another object after each change, an empty one before the first
   * session.
   */
  readonly state: Readonly<Model["state"]>;
  readonly speaker: Speaker;
  /**
   * From the last input that is seen to the first picture that shows it, and in the median of nine; null before the
   * first.
   */
  readonly inputDelayMs: number | null;
  readonly medianInputDelayMs: number | null;
  /** The newest of the server's figures; none before they first came. */
  readonly stats: Readonly<Partial<Stats>>;
  /** To the server and back; null before it is known. */
  readonly rttMs: number | null;

  /**
   * Wait until the session has begun in the role that was asked for; resolves to the session itself. Rejects with the
   * signal's reason, with SessionEnded when the session was closed, its turn is over or the model can't be served, and
   * outside of pages with ConnectError when there is no server at the address, or one that refuses this client.
   */
  ready(options?: { signal?: Platform<"AbortSignal"> }): Promise<this>;

  /**
   * Send an event of the model. Resolves when it was applied; rejects with EventError, or with ConnectionLost when the
   * connection went before the answer came; with TypeError or RangeError for what is no event, or longer than the
   * server's limit. It waits for the turn, and in a break for the session to be found again: rejects with SessionEnded
   * when it is over, with ConnectionLost when the server did not keep it. `inputAt` is when the user did it, on
   * performance.now()'s clock, for `inputDelayMs`.
   */
  send<Type extends keyof Model["events"] & string>(
    type: Type,
    ...rest: Carried<Model["events"][Type], [options?: { inputAt?: number }]>
  ): Promise<Reply<Model>>;
  /**
   * Send an event without asking for an answer; false, and it is not sent, while this client controls no session: in
   * line, while the model loads, in a break, as a viewer. Throws RangeError for one over the limit.
   */
  notify<Type extends keyof Model["events"] & string>(type: Type, ...rest: Carried<Model["events"][Type]>): boolean;

  /** The model's messages from now on; when 1,000 wait, the oldest goes. Ends as frames() does. */
  messages(): AsyncIterableIterator<Message<Model>>;
  /**
   * The newest frame of a video track each time one is asked for; without a name of the first track. A viewer's goes on
   * over sessions and breaks. A controller's is of one session: it ends when that is closed or has finished, and
   * rejects with SessionEnded or ConnectionLost when it ends otherwise. Rejects with TypeError for a track that the
   * model does not have.
   */
  frames(track?: Model["tracks"]["shown"] | null): AsyncIterableIterator<Frame>;
  /**
   * The newest frame there is, as soon as there is one; with `after`, the reply to an event, one that was made with
   * that event. Rejects with SessionEnded when the session is over before, with ConnectionLost when it was not kept,
   * and with the signal's reason.
   */
  frame(options?: {
    track?: Model["tracks"]["shown"] | null;
    after?: Reply<Model>;
    signal?: Platform<"AbortSignal">;
  }): Promise<Frame>;
  /**
   * Show a video track on a canvas, null for the first track. The function it returns ends that. Throws TypeError for a
   * track that the model does not have; before the tracks are known, the console has that error as soon as they are.
   */
  attach(track: Model["tracks"]["shown"] | null, canvas: Canvas): () => void;
  /** Tracks by name, all without, for a <video>, a recorder or a call. Where one sounds, `speaker` is started. */
  stream(...tracks: (Model["tracks"]["shown"] | Model["tracks"]["heard"])[]): Promise<Platform<"MediaStream">>;

  /**
   * Send a JPEG or a WAV. Resolves to true when it has gone out, to false when it is left out: a newer picture has
   * taken its place, more than a second of sound is on its way, or there is no session of this client's. Pictures go
   * out as fast as the server takes them, so a program that awaits each makes no more than that. Rejects with TypeError
   * for a track that doesn't take it, and with RangeError for more than the server's limit.
   */
  publish(
    track: Model["tracks"]["filmed"] | Model["tracks"]["recorded"],
    source: ArrayBuffer | ArrayBufferView | Platform<"Blob">,
  ): Promise<boolean>;
  /**
   * Send what a camera, a video or a canvas shows, or what a microphone or an AudioNode gives, until stop(), the
   * source's end or close(). A picture is encoded in a worker when there is room for it and the model will take it, the
   * newest at that moment. Rejects where it can't be read.
   */
  publish(
    track: Model["tracks"]["filmed"] | Model["tracks"]["recorded"],
    source: Platform<"MediaStreamTrack"> | Platform<"HTMLVideoElement"> | Canvas | Platform<"AudioNode">,
    options?: CaptureOptions,
  ): Promise<Capture>;
  /** Send a file; what it resolves to stands for the file in an event's data. Rejects with UploadError. */
  upload(file: Platform<"Blob"> | ArrayBuffer | ArrayBufferView, name?: string): Promise<{ upload: string }>;

  /**
   * Ask for less than everything; replaces what was asked for before. Pages that are hidden ask for no pictures by
   * themselves.
   */
  view(wanted?: { paused?: boolean; maxFps?: number; tracks?: string[] | null }): void;
  /** Say that somebody is there. */
  here(): void;
  /** Connect now instead of at `retryAt`, or again after a turn that ended. */
  reconnect(): void;
  /** Leave for good: iterators end, nothing is tried again. */
  close(): void;
}

/** What the session's sound is heard with. */
export interface Speaker {
  readonly on: boolean;
  /** Names of the session's audio tracks. */
  readonly tracks: string[];
  /** How long after its picture a sound is heard, negative for before; null while unknown. */
  readonly lagMs: number | null;
  /** From 0 for silence to 1 for as it came. */
  volume: number;
  /** Browsers want this in a click or a key press. Rejects with Error in words where there can be no sound. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * All errors of this client but TypeError and RangeError, which are mistakes in the call. `name` is the name of the
 * class; `instanceof` also knows the errors of another copy of this module.
 */
export class ClientError extends Error {
  constructor(message: string);
  code: string;
}

/** There is no server at the address, or one that does not accept this client. Pages are not told, and go on trying. */
export class ConnectError extends ClientError {
  code: "unreachable" | "refused" | "busy";
}

/** The server does not accept this client: its token or its origin is wrong. */
export class Refused extends ConnectError {
  code: "refused";
}

/** The server is full; the client goes on trying. */
export class Busy extends ConnectError {
  code: "busy";
}

/** The server answered an event with an error. */
export class EventError extends ClientError {
  constructor(error: { code?: string; message?: string; fields?: FieldError[]; event?: string });
  code: ErrorCode;
  /** The parameters at fault. */
  fields: FieldError[];
  /** The event's name. */
  event: string;
}

/** The session is over, `reason` is why; docs/wire.md says after which closes another one follows. */
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
  /** HTTP's; 0 where there was no answer. */
  status: number;
}

/**
 * The connection went before the answer came: whether the event took effect is unknown. Or the session was not kept.
 */
export class ConnectionLost extends ClientError {
  code: "connection_lost";
}

export class MediaError extends ClientError {
  code: "bad_media";
}

/** Read a binary message: the header, and of a WAV the samples. Throws MediaError for what is malformed. */
export function readMedia(
  message: ArrayBuffer,
):
  | { kind: "jpeg"; header: FrameHeader | null }
  | { kind: "wav"; header: FrameHeader; sampleRate: number; channels: number; samples: Int16Array };
