import type { CanvasHTMLAttributes, ReactElement } from "react";
import type { AnyModel, Modelled, Options, Session, SessionEvents, Status } from "./client/reactor.js";

/** What `useReactor` returns. */
export interface Reactor<Model extends Modelled = any> {
  /** Null until the component is mounted. */
  session: Session<Model> | null;
  status: Status;
  /** The model's public fields; empty before there is a session. */
  state: Readonly<Partial<Model["state"]>>;
}

/**
 * Return a session for the lifetime of the component; another one when the address or an option changes. The component
 * renders again when the status or the model's fields change, not for frames.
 */
export function useReactor<Model extends Modelled = AnyModel>(
  url: string,
  options?: Pick<Options, "token" | "role" | "watch">,
): Reactor<Model>;

/** Call `listener` with the detail of each event of the session; the latest listener is called. */
export function useReactorEvent<Name extends keyof SessionEvents, Model extends Modelled = AnyModel>(
  session: Session<Model> | null,
  name: Name,
  listener: (detail: SessionEvents<Model>[Name]) => void,
): void;

/** The props of `ReactorView`. */
export interface ReactorViewProps extends Omit<CanvasHTMLAttributes<HTMLCanvasElement>, "ref"> {
  session: Session | null;
  /** Default: the first video track. */
  track?: string | null;
}

/** A canvas that shows a video track; other props go to the canvas. */
export function ReactorView(props: ReactorViewProps): ReactElement;
