import type { CanvasHTMLAttributes, ReactElement } from "react";
import type { AnyModel, Modelled, Options, Session, SessionEvents, Status } from "./client/reactor.js";

export interface Reactor<Model extends Modelled = any> {
  /** Null until the component is on the page. */
  session: Session<Model> | null;
  status: Status;
  /** The model's public values, whoever set them; none before there is a session. */
  state: Readonly<Partial<Model["state"]>>;
}

/**
 * A session for as long as the component is there; another one when the address or an option changes. Renders anew when
 * its status or the model's values change, never for a frame.
 */
export function useReactor<Model extends Modelled = AnyModel>(
  url: string,
  options?: Pick<Options, "token" | "role" | "watch">,
): Reactor<Model>;

/** Call `listener` with the detail of each such event of the session; the newest listener counts. */
export function useReactorEvent<Name extends keyof SessionEvents, Model extends Modelled = AnyModel>(
  session: Session<Model> | null,
  name: Name,
  listener: (detail: SessionEvents<Model>[Name]) => void,
): void;

export interface ReactorViewProps extends Omit<CanvasHTMLAttributes<HTMLCanvasElement>, "ref"> {
  session: Session | null;
  /** The first video track, where it is left out. */
  track?: string | null;
}

/** A canvas that shows a video track; everything else goes to the canvas. */
export function ReactorView(props: ReactorViewProps): ReactElement;
