import {
  closeIcon,
  codeIcon,
  fileIcon,
  folderIcon,
  imageIcon,
  LabIcon,
  notebookIcon,
  textEditorIcon
} from '@jupyterlab/ui-components';
import * as React from 'react';

import { IAttachment } from '../api/attachments';
import { describeAttachment, IAttachmentText } from '../mentions/describe';
import { usePanel } from './context';
import { failedIcon, variableIcon } from './icons';

const ICONS: Record<IAttachmentText['kind'], LabIcon> = {
  cell: codeIcon,
  error: failedIcon,
  file: fileIcon,
  folder: folderIcon,
  image: imageIcon,
  notebook: notebookIcon,
  selection: textEditorIcon,
  variable: variableIcon
};

export function AttachmentIcon(props: {
  kind: IAttachmentText['kind'];
}): JSX.Element {
  const Icon = ICONS[props.kind];
  return (
    <Icon.react
      tag="span"
      className="jp-prime-AttachmentIcon"
      aria-hidden="true"
    />
  );
}

/**
 * The attachments of a message. A click on a chip reveals the cell or opens the file.
 *
 * @param onRemove - Called with the attachment to remove; without it, chips have no button.
 */
export function AttachmentChips(props: {
  attachments: readonly IAttachment[];
  onRemove?: (attachment: IAttachment) => void;
}): JSX.Element | null {
  const { trans } = usePanel();
  const list = React.useRef<HTMLUListElement>(null);
  if (props.attachments.length === 0) {
    return null;
  }
  const remove = (attachment: IAttachment, index: number): void => {
    props.onRemove!(attachment);
    // Move the focus to the next chip, or to the composer if no chip is left.
    requestAnimationFrame(() => {
      const buttons = list.current?.querySelectorAll<HTMLElement>(
        '.jp-prime-Chip-remove'
      );
      const next = buttons?.[Math.min(index, buttons.length - 1)];
      (
        next ??
        document.querySelector<HTMLElement>('.jp-prime-Composer textarea')
      )?.focus();
    });
  };
  return (
    <ul ref={list} className="jp-prime-Chips" aria-label={trans.__('Attached')}>
      {props.attachments.map((attachment, index) => {
        const { kind, label, title } = describeAttachment(attachment, trans);
        return (
          <li key={index} className="jp-prime-Chip" data-kind={kind}>
            <ChipBody attachment={attachment} text={{ kind, label, title }} />
            {props.onRemove && (
              <button
                type="button"
                className="jp-prime-Chip-remove"
                title={trans.__('Remove')}
                aria-label={trans.__('Remove %1', label)}
                onClick={() => remove(attachment, index)}
              >
                <closeIcon.react tag="span" />
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function ChipBody(props: {
  attachment: IAttachment;
  text: IAttachmentText;
}): JSX.Element {
  const { attachment, text } = props;
  const { notebookView, commands } = usePanel();
  const openPath = (path: string): void => {
    void commands.execute('filebrowser:open-path', { path });
  };
  const content = (
    <>
      {attachment.type === 'image' && attachment.data ? (
        <img
          className="jp-prime-Chip-image"
          src={`data:${attachment.mimetype};base64,${attachment.data}`}
          alt=""
        />
      ) : (
        <AttachmentIcon kind={text.kind} />
      )}
      <span className="jp-prime-Chip-label">{text.label}</span>
    </>
  );
  const cell = 'cells' in attachment ? attachment.cells?.[0] : undefined;
  const show = cell
    ? () => {
        if (!notebookView.revealCell(attachment.value, cell.id)) {
          openPath(attachment.value);
        }
      }
    : attachment.type === 'file' || attachment.type === 'notebook'
      ? () => openPath(attachment.value)
      : null;
  return show ? (
    <button
      type="button"
      className="jp-prime-Chip-body"
      title={text.title}
      onClick={show}
    >
      {content}
    </button>
  ) : (
    <span className="jp-prime-Chip-body" title={text.title}>
      {content}
    </span>
  );
}
