import { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, editIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { IAttachment } from '../api/attachments';
import { IQueuedMessage } from '../model/items';
import { attachmentLabels, describeAttachment } from '../mentions/describe';
import { mentionedAgain } from '../mentions/text';
import { usePanel } from './context';
import { IWaitingMessage } from './state';

/**
 * Queued messages, sent in order when the agent is done. After a stop or an error they wait until
 * the user sends them, or another message, which then follows them.
 *
 * @param props.waiting - Messages that are sent to the queue as soon as the one before them is sent.
 * @param props.held - Whether they wait for the user.
 */
export function QueueList(props: {
  queue: readonly IQueuedMessage[];
  waiting: readonly IWaitingMessage[];
  held: boolean;
}): JSX.Element | null {
  const { controller, trans } = usePanel();
  if (props.queue.length + props.waiting.length === 0) {
    return null;
  }
  const nameOf = (message: IWaitingMessage): string =>
    messageName(message, trans);
  return (
    <div className="jp-prime-Queue">
      {props.held && (
        <div className="jp-prime-Queue-note">
          <span>{trans.__('Sent before your next message')}</span>
          <button
            type="button"
            className="jp-prime-Button"
            onClick={() => {
              void controller.sendQueued();
            }}
          >
            {trans.__('Send now')}
          </button>
        </div>
      )}
      <ul aria-label={trans.__('Queued messages')}>
        {props.queue.map(message => (
          <li key={message.seq}>
            <QueuedText message={message} />
            {isWhole(message) && (
              <button
                type="button"
                className="jp-prime-IconButton"
                title={trans.__('Edit')}
                aria-label={trans.__(
                  'Edit queued message: %1',
                  nameOf(message)
                )}
                onClick={() => {
                  void controller.editQueued(message);
                }}
              >
                <editIcon.react tag="span" />
              </button>
            )}
            <button
              type="button"
              className="jp-prime-IconButton"
              title={trans.__('Remove')}
              aria-label={trans.__(
                'Remove queued message: %1',
                nameOf(message)
              )}
              onClick={() => {
                void controller.unqueue(message.seq);
              }}
            >
              <closeIcon.react tag="span" />
            </button>
          </li>
        ))}
        {props.waiting.map((message, index) => (
          <li key={`waiting ${index}`}>
            <QueuedText message={message} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function QueuedText(props: { message: IWaitingMessage }): JSX.Element {
  const { message } = props;
  const { trans } = usePanel();
  const name = messageName(message, trans);
  return (
    <>
      <span className="jp-prime-Queue-label">{trans.__('Queued')}</span>
      <span className="jp-prime-Queue-text" title={name}>
        {name}
      </span>
      {message.text !== '' && (
        <AttachmentCount attachments={message.attachments} />
      )}
    </>
  );
}

function messageName(
  { text, attachments }: IWaitingMessage,
  trans: TranslationBundle
): string {
  return text || attachmentLabels(attachments, trans);
}

/** Whether all attachments can go back to the composer; for example, images cannot. */
function isWhole({ attachments }: IQueuedMessage): boolean {
  return mentionedAgain(attachments).length === attachments.length;
}

/** The number of attachments, with their labels as title, since there is no room for chips. */
function AttachmentCount(props: {
  attachments: readonly IAttachment[];
}): JSX.Element | null {
  const { trans } = usePanel();
  const { attachments } = props;
  return attachments.length === 0 ? null : (
    <span
      className="jp-prime-Queue-label"
      title={attachments
        .map(attachment => describeAttachment(attachment, trans).label)
        .join('\n')}
    >
      {trans._n('%1 attached', '%1 attached', attachments.length)}
    </span>
  );
}
