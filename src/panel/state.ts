import { IAttachment } from '../api/attachments';
import { ApiError, IStatus, PermissionMode } from '../api/rest';
import { IConversation, IErrorItem, IUserItem } from '../model/items';
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
  /** What the next session starts with; `null`: as the server has it. */
  readonly newSession: {
    readonly permissionMode: PermissionMode | null;
    readonly model: string | null;
  };
  readonly draft: string;
  /** Chosen for the draft; what is mentioned goes along only while its mention is in the text. */
  readonly attachments: readonly IAttachment[];
  /** Text on its way to the server. */
  readonly sending: string | null;
  /** What goes with it. */
  readonly sendingAttachments: readonly IAttachment[];
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
  newSession: { permissionMode: null, model: null },
  draft: '',
  attachments: [],
  sending: null,
  sendingAttachments: [],
  stopping: false,
  deciding: new Set(),
  failure: null,
  sheet: 'none'
};

/** The agent is at work, or about to be. */
export function isBusy(state: IPanelState): boolean {
  return state.sending !== null || !!state.conversation?.activity.running;
}

/** Permission mode of the session on show, or of the one to be made. */
export function permissionModeOf(state: IPanelState): PermissionMode {
  return ((state.sessionId && state.conversation?.permissionMode) ||
    state.newSession.permissionMode ||
    state.server?.default_permission_mode ||
    'ask') as PermissionMode;
}

/** Model that answers the next message; empty: the provider's default. */
export function modelOf(state: IPanelState): string {
  return (
    (state.sessionId && state.conversation?.model) ||
    state.newSession.model ||
    state.server?.model ||
    ''
  );
}

/** Model chosen last; it may have to wait for the next compaction. */
export function chosenModelOf(state: IPanelState): string {
  return (state.sessionId && state.conversation?.chosenModel) || modelOf(state);
}

/**
 * The message to send again after an error; `null` if the error is no longer the last thing that
 * happened, or was not about a message.
 */
export function messageToRetry(
  state: IPanelState,
  error: IErrorItem
): IUserItem | null {
  if (
    isBusy(state) ||
    error.where === 'compaction' ||
    error.code === 'code_still_runs'
  ) {
    return null;
  }
  const items = state.conversation?.items ?? [];
  let index = items.length - 1;
  while (items[index]?.kind === 'turn') {
    index--;
  }
  if (items[index] !== error) {
    return null;
  }
  for (; index >= 0; index--) {
    const item = items[index];
    if (item.kind === 'user') {
      return item.turn === error.turn ? item : null;
    }
  }
  return null;
}

/** What the agent wrote in a turn, as Markdown. */
export function answerText(state: IPanelState, turn: string | null): string {
  return (state.conversation?.items ?? [])
    .flatMap(item =>
      item.kind === 'text' && item.turn === turn ? [item.text] : []
    )
    .join('\n\n');
}

export function failureOf(reason: unknown): IFailure {
  if (reason instanceof ApiError) {
    return { code: reason.code, message: reason.message, hint: reason.hint };
  }
  return {
    code: 'unexpected',
    message: reason instanceof Error ? reason.message : String(reason),
    hint: ''
  };
}

/** Whether the offline agent answers. */
export function isOffline(state: IPanelState): boolean {
  const provider = state.sessionId ? state.conversation?.provider : null;
  return provider ? provider === 'offline' : (state.server?.offline ?? false);
}
