import { IStatus } from '../api/rest';
import { IConversation } from '../model/items';
import { ConnectionStatus } from '../tokens';

/** Something the person asked for that did not work. */
export interface IFailure {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/** The notebook's kernel as Lab knows it. */
export interface IKernelDisplay {
  readonly name: string;
  readonly status: string;
}

/** All that the panel shows. A new object after each change. */
export interface IPanelState {
  /** What the server says of itself; `null` until it has answered. */
  readonly server: IStatus | null;
  readonly serverFailure: IFailure | null;
  readonly notebook: string | null;
  readonly kernel: IKernelDisplay | null;
  /** `undefined` while it is looked up; `null` before the first message. */
  readonly sessionId: string | null | undefined;
  readonly conversation: IConversation | null;
  readonly connection: ConnectionStatus | null;
  readonly draft: string;
  /** Text on its way to the server. */
  readonly sending: string | null;
  /** Stop was asked for and has not taken effect yet. */
  readonly stopping: boolean;
  /** Approvals whose decision is on its way. */
  readonly deciding: ReadonlySet<string>;
  readonly failure: IFailure | null;
  readonly sheet: 'none' | 'model' | 'help';
}

export const EMPTY_STATE: IPanelState = {
  server: null,
  serverFailure: null,
  notebook: null,
  kernel: null,
  sessionId: undefined,
  conversation: null,
  connection: null,
  draft: '',
  sending: null,
  stopping: false,
  deciding: new Set(),
  failure: null,
  sheet: 'none'
};

/** The agent is at work, or about to be. */
export function isBusy(state: IPanelState): boolean {
  return state.sending !== null || !!state.conversation?.activity.running;
}
