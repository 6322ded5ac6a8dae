import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import {
  IErrorItem,
  INoteItem,
  IThinkingItem,
  ITurnItem,
  IUserItem,
  Item
} from '../model/items';
import { ApprovalCard } from './approval';
import { AttachmentChips } from './attachmentChips';
import { CompactionBanner } from './compactionBanner';
import { CopyButton } from './codeView';
import { usePanel, usePanelState } from './context';
import { Failure } from './failure';
import { cost, duration, fullCount, shortCount } from './format';
import { thinkingIcon } from './icons';
import { MarkdownView } from './markdownView';
import { modeName } from './permissionModes';
import { RestoreCard } from './restoreCard';
import { answerText, IPanelState, messageToRetry } from './state';
import { ToolCard } from './toolCard';
import { RevertOutcome, RevertTurn } from './turnRevert';

/** One item of the conversation. Items are immutable, so an unchanged item is not re-rendered. */
export const ItemView = React.memo(
  (props: { item: Item }): JSX.Element | null => {
    const { item } = props;
    switch (item.kind) {
      case 'user':
        return <UserMessage item={item} />;
      case 'text':
        return (
          <div className="jp-prime-Text">
            <MarkdownView text={item.text} streaming={item.streaming} />
          </div>
        );
      case 'thinking':
        return <Thinking item={item} />;
      case 'tool':
        return <ToolCard item={item} />;
      case 'approval':
        return <ApprovalCard item={item} />;
      case 'compaction':
        return <CompactionBanner item={item} />;
      case 'restore':
        return <RestoreCard item={item} />;
      case 'error':
        return <ErrorCard item={item} />;
      case 'note':
        return <Note item={item} />;
      case 'turn':
        return <TurnFooter item={item} />;
    }
  }
);

function UserMessage(props: { item: IUserItem }): JSX.Element {
  const { item } = props;
  const { trans, userName } = usePanel();
  const time = new Date(item.ts);
  const other = item.user === userName ? null : item.user;
  return (
    <article
      className="jp-prime-User"
      title={Number.isNaN(time.valueOf()) ? undefined : time.toLocaleString()}
    >
      {other === null ? (
        <span className="jp-prime-VisuallyHidden">
          {trans.__('You wrote:')}
        </span>
      ) : (
        <div className="jp-prime-User-name">{other}</div>
      )}
      {item.text !== '' && (
        <div className="jp-prime-User-text">{item.text}</div>
      )}
      <AttachmentChips attachments={item.attachments} />
    </article>
  );
}

/** A message that is being sent. */
export function SendingMessage(props: { state: IPanelState }): JSX.Element {
  const { sending, sendingAttachments } = props.state;
  return (
    <article className="jp-prime-User" data-sending>
      {sending !== '' && <div className="jp-prime-User-text">{sending}</div>}
      <AttachmentChips attachments={sendingAttachments} />
    </article>
  );
}

function Thinking(props: { item: IThinkingItem }): JSX.Element {
  const { item } = props;
  const { trans, settings } = usePanel();
  const [chosen, setChosen] = React.useState<boolean | null>(null);
  const open = chosen ?? settings.showThinking;
  const bodyId = React.useId();
  const Caret = open ? caretDownIcon : caretRightIcon;
  return (
    <div className="jp-prime-Thinking" data-streaming={item.streaming}>
      <button
        type="button"
        className="jp-prime-Thinking-toggle"
        aria-expanded={open}
        aria-controls={bodyId}
        onClick={() => setChosen(!open)}
      >
        <Caret.react tag="span" className="jp-prime-Caret" />
        <thinkingIcon.react tag="span" />
        <span>{trans.__('Thoughts')}</span>
      </button>
      {open && (
        <div className="jp-prime-Thinking-body" id={bodyId}>
          <MarkdownView text={item.text} streaming={item.streaming} />
        </div>
      )}
    </div>
  );
}

function ErrorCard(props: { item: IErrorItem }): JSX.Element {
  const { item } = props;
  const { controller, trans } = usePanel();
  // Whether a retry makes sense depends on the items after the error.
  const state = usePanelState();
  const actions: { label: string; title?: string; run: () => void }[] = [];
  if (
    item.code === 'no_credentials' ||
    item.code === 'bad_credentials' ||
    item.code === 'unreachable'
  ) {
    actions.push({
      label: trans.__('Connect a model…'),
      run: () => controller.showSheet('model')
    });
  }
  const message = messageToRetry(state, item);
  if (message !== null) {
    actions.push({
      label: trans.__('Try again'),
      title:
        message.attachments.length > 0
          ? trans.__(
              'Sends the text again. Its attachments are already in the conversation.'
            )
          : undefined,
      run: () => {
        controller.submit(message.text).catch(() => undefined);
      }
    });
  }
  return (
    <Failure message={item.message} hint={item.hint}>
      {actions.map(({ label, title, run }) => (
        <button
          key={label}
          type="button"
          className="jp-prime-Button"
          title={title}
          onClick={run}
        >
          {label}
        </button>
      ))}
    </Failure>
  );
}

function Note(props: { item: INoteItem }): JSX.Element {
  const { item } = props;
  const { trans, userName } = usePanel();
  const parts: string[] = [];
  if (item.user !== null && item.user !== userName) {
    parts.push(item.user);
  }
  if (item.permissionMode !== null) {
    parts.push(
      trans.__('Permissions: %1', modeName(item.permissionMode, trans))
    );
  }
  if (item.model !== null) {
    parts.push(
      item.modelPending
        ? trans.__('Model: %1, from the next compaction on', item.model)
        : trans.__('Model: %1', item.model)
    );
  }
  if (item.notebook !== null) {
    parts.push(trans.__('Notebook: %1', item.notebook));
  }
  if (item.removed) {
    parts.push(
      trans.__(
        'The saved variables were removed because all sessions together reached the size limit'
      )
    );
  }
  if (item.snapshots !== null) {
    parts.push(
      item.snapshots
        ? trans.__('Variables of this notebook are saved')
        : trans.__('Variables of this notebook are no longer saved')
    );
  }
  return <div className="jp-prime-Note">{parts.join(' · ')}</div>;
}

function TurnFooter(props: { item: ITurnItem }): JSX.Element {
  const { item } = props;
  const { controller, trans, settings } = usePanel();
  const parts: string[] = [];
  switch (item.status) {
    case 'interrupted':
      parts.push(trans.__('Stopped'));
      break;
    case 'limit':
      parts.push(trans.__('Stopped at the limit'));
      break;
    case 'crashed':
      parts.push(trans.__('Cut off: the server stopped'));
      break;
    case 'error':
      parts.push(trans.__('Ended with an error'));
      break;
    case 'ok':
      break;
  }
  let title: string | undefined;
  if (settings.showTurnDetails) {
    // How long a turn took that the server's end cut off is not known.
    if (item.status !== 'crashed') {
      parts.push(duration(item.durationMs, trans));
    }
    const { usage } = item;
    const sent =
      (usage.input_tokens ?? 0) +
      (usage.cache_read_input_tokens ?? 0) +
      (usage.cache_creation_input_tokens ?? 0);
    const received = usage.output_tokens ?? 0;
    if (sent + received > 0) {
      parts.push(trans.__('%1 tokens', shortCount(sent + received)));
      title = [
        trans._n('%1 request', '%1 requests', item.requests),
        trans.__('%1 tokens read', fullCount(sent)),
        trans.__(
          '%1 of them from the cache',
          fullCount(usage.cache_read_input_tokens ?? 0)
        ),
        trans.__('%1 tokens written', fullCount(received))
      ].join('\n');
    }
    if (item.costUsd !== null && item.costUsd > 0) {
      parts.push(cost(item.costUsd));
    }
  }
  return (
    <>
      <div className="jp-prime-Turn" data-status={item.status}>
        <span title={title}>{parts.join(' · ')}</span>
        {answerText(controller.snapshot(), item.turn) && (
          <CopyButton
            label={trans.__('Copy answer')}
            text={() => answerText(controller.snapshot(), item.turn)}
          />
        )}
        <RevertTurn item={item} />
      </div>
      <RevertOutcome item={item} />
    </>
  );
}
