/** What TypeScript's DOM library lacks: audio worklets, tracks as streams of frames, and what only some browsers have. */

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new (options: any) => AudioWorkletProcessor): void;
declare const currentTime: number;
declare const sampleRate: number;

declare var MediaStreamTrackProcessor: {
  new (options: { track: MediaStreamTrack }): { readonly readable: ReadableStream<VideoFrame> };
};
declare var MediaStreamTrackGenerator: {
  new (options: { kind: "video" }): MediaStreamTrack & { readonly writable: WritableStream<VideoFrame> };
};

interface Document {
  readonly permissionsPolicy?: { allowsFeature(name: string): boolean };
  readonly featurePolicy?: { allowsFeature(name: string): boolean };
}

interface Navigator {
  readonly keyboard?: { getLayoutMap(): Promise<Map<string, string>> };
}

interface EventTarget {
  addEventListener(
    name: string,
    listener: (event: CustomEvent) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
}
