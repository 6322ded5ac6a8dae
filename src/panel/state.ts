import { IAttachment } from '../api/attachments';
import { ApiError, IStatus, PermissionMode } from '../api/rest';
import { IConversation, IErrorItem, IUserItem } from '../model/items';
import { ConnectionStatus } from '../tokens';

/** A failed action of the user. */
export interface IFailure {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/** A message that waits until the one before it is sent. */
export interface IWaitingMessage {
  readonly text: string;
  readonly attachments: readonly IAttachment[];
}

/** The display name and status of the notebook's kernel in JupyterLab. */
export interface IKernelDisplay {
  readonly name: string;
  readonly status: string;
}

/** The state of the panel; a new object after each change. */
export interface IPanelState {
  /** Status of the server; `null` until it has responded. */
  readonly server: IStatus | null;
  readonly serverFailure: IFailure | null;
  readonly notebook: string | null;
  readonly kernel: IKernelDisplay | null;
  /** `undefined` while the session is looked up; `null` before the first message. */
  readonly sessionId: string | null | undefined;
  readonly conversation: IConversation | null;
  readonly connection: ConnectionStatus | null;
  /** Why the server refuses the session. */
  readonly refusal: IFailure | null;
  /** Settings that the next session starts with; `null`: the server's default. */
  readonly newSession: {
    readonly permissionMode: PermissionMode | null;
    readonly model: string | null;
  };
  readonly draft: string;
  /** Attachments of the draft. One with a mention is sent only while the text has the mention. */
  readonly attachments: readonly IAttachment[];
  /** Text of the message that is being sent. */
  readonly sending: string | null;
  /** Attachments of the message that is being sent. */
  readonly sendingAttachments: readonly IAttachment[];
  /** Messages that are sent after it, in this order. */
  readonly waiting: readonly IWaitingMessage[];
  /** Whether an interrupt was requested and has not taken effect yet. */
  readonly stopping: boolean;
  /** Call ids of the approvals whose decision is being sent. */
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
  refusal: null,
  newSession: { permissionMode: null, model: null },
  draft: '',
  attachments: [],
  sending: null,
  sendingAttachments: [],
  waiting: [],
  stopping: false,
  deciding: new Set(),
  failure: null,
  sheet: 'none'
};

/** Whether messages are being sent to the agent. */
export function isSending({ sending, waiting }: IPanelState): boolean {
  return sending !== null || waiting.length > 0;
}

/** Whether the agent is running, or a message is being sent to it. */
export function isBusy(state: IPanelState): boolean {
  return isSending(state) || !!state.conversation?.activity.running;
}

/**
 * Return the permission mode in force in the current session, or in the next one if there is none.
 * Like the server, replace a mode that the administrator does not allow by the default.
 */
export function permissionModeOf(state: IPanelState): PermissionMode {
  const { server } = state;
  const wanted = ((state.sessionId && state.conversation?.permissionMode) ||
    state.newSession.permissionMode) as PermissionMode | null;
  return wanted && isAllowed(server, wanted)
    ? wanted
    : (server?.default_permission_mode ?? 'ask');
}

/** Whether the administrator allows a permission mode; all, until the server has responded. */
export function isAllowed(
  server: IStatus | null,
  mode: PermissionMode
): boolean {
  return server?.permission_modes.includes(mode) ?? true;
}

/** Return the model that answers the next message; empty for the provider's default. */
export function modelOf(state: IPanelState): string {
  return (
    (state.sessionId && state.conversation?.model) ||
    state.newSession.model ||
    state.server?.model ||
    ''
  );
}

/** Return the model selected last, which may take over only after the next compaction. */
export function chosenModelOf(state: IPanelState): string {
  return (state.sessionId && state.conversation?.chosenModel) || modelOf(state);
}

/**
 * Return the message to send again after an error; `null` if the error is no longer the last item,
 * or is not about a message with text.
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
      return item.turn === error.turn && item.text !== '' ? item : null;
    }
  }
  return null;
}

/** Return the text that the agent wrote in a turn, as Markdown. */
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

/** Whether the offline agent answers the next message. */
export function isOffline(state: IPanelState): boolean {
  const provider = state.sessionId ? state.conversation?.provider : null;
  return provider ? provider === 'offline' : (state.server?.offline ?? false);
}
