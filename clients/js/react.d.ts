import type { CanvasHTMLAttributes, ReactElement } from "react";
import type { Options, Session, SessionEvents, Status } from "./client/reactor.js";

export interface Reactor {
  /** Null until the component is on the page. */
  session: Session | null;
  status: Status;
  /** The model's public values, whoever set them. */
  state: Readonly<Record<string, unknown>>;
}

/**
 * A session for as long as the component is there; another one when the address or an option changes. Renders anew when its status or
 * the model's values change, never for a frame.
 */
export function useReactor(url: string, options?: Pick<Options, "token" | "role" | "watch">): Reactor;

/** Call `listener` with the detail of each such event of the session; the newest listener counts. */
export function useReactorEvent<Name extends keyof SessionEvents>(
  session: Session | null,
  name: Name,
  listener: (detail: SessionEvents[Name]) => void,
): void;

export interface ReactorViewProps extends Omit<CanvasHTMLAttributes<HTMLCanvasElement>, "ref"> {
  session: Session | null;
  /** The first video track, where it is left out. */
  track?: string | null;
}

/** A canvas that shows a video track; everything else goes to the canvas. */
export function ReactorView(props: ReactorViewProps): ReactElement;
