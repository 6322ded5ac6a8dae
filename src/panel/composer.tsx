import { caretDownIcon, stopIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { PermissionMode } from '../api/rest';
import { describeAttachment } from '../mentions/describe';
import { imagesAmong } from '../mentions/images';
import { attachedTo, mentionedAgain } from '../mentions/text';
import { AttachmentChips } from './attachmentChips';
import { CompletionList } from './completionList';
import { useCompletions } from './completions';
import { usePanel } from './context';
import { ContextMeter } from './contextMeter';
import { InputHistory } from './inputHistory';
import { sendIcon } from './icons';
import { modeDescription, modeName } from './permissionModes';
import { ModelButton } from './modelButton';
import { IPanelState, isBusy, permissionModeOf } from './state';

/** Tallest the text may get before it scrolls, as a share of the window. */
const MAX_HEIGHT_SHARE = 0.35;

/** Where messages are written, with what bears on how they are answered. */
export function Composer(props: { state: IPanelState }): JSX.Element {
  const { state } = props;
  const { controller, trans, settings } = usePanel();
  const text = React.useRef<HTMLTextAreaElement>(null);
  const [cursor, setCursor] = React.useState<number | null>(null);
  const [move, setMove] = React.useState<{ to: number } | null>(null);
  const listId = React.useId();
  const history = React.useRef(new InputHistory());
  const busy = isBusy(state);
  const disabled = state.notebook === null;
  /** Put the cursor there in the text as it is from now on. */
  const moveCursor = (to: number): void => {
    setCursor(to);
    setMove({ to });
  };
  const completions = useCompletions(state, cursor, moveCursor);
  const isCompleting = completions.count > 0;
  const attached = attachedTo(state.draft, state.attachments);

  React.useEffect(() => {
    const focus = (): void => {
      // Behind the update that may just enable it.
      requestAnimationFrame(() => {
        if (text.current && controller.takeFocus()) {
          text.current.focus();
        }
      });
    };
    focus();
    controller.focusRequested.connect(focus);
    return () => {
      controller.focusRequested.disconnect(focus);
    };
  }, [controller]);

  // With the text, not a frame later: by then the next key may have been typed.
  React.useLayoutEffect(() => {
    if (move !== null) {
      text.current!.focus();
      text.current!.setSelectionRange(move.to, move.to);
    }
  }, [move]);
  React.useLayoutEffect(() => fitHeight(text.current!), [state.draft, busy]);
  React.useEffect(() => {
    // Another width breaks the lines elsewhere.
    const observer = new ResizeObserver(() => fitHeight(text.current!));
    observer.observe(text.current!.parentElement!);
    return () => observer.disconnect();
  }, []);

  const send = (): void => {
    if (state.draft.trim() !== '' && !disabled) {
      history.current.reset();
      void controller.message.send();
    }
  };
  const recall = (direction: 'older' | 'newer'): boolean => {
    const sent = (state.conversation?.items ?? []).filter(
      item => item.kind === 'user'
    );
    const recalled = history.current.move(
      direction,
      sent.map(item => item.text),
      state.draft
    );
    if (recalled === null) {
      return false;
    }
    controller.message.setText(recalled);
    const message = [...sent].reverse().find(item => item.text === recalled);
    controller.message.attach(...mentionedAgain(message?.attachments ?? []));
    moveCursor(direction === 'older' ? 0 : recalled.length);
    return true;
  };

  const onKeyDown = (event: React.KeyboardEvent<HTMLTextAreaElement>): void => {
    // While an input method composes, its keys are not ours.
    if (event.nativeEvent.isComposing || event.keyCode === 229) {
      return;
    }
    const { selectionStart, selectionEnd } = event.currentTarget;
    const handled = ((): boolean => {
      switch (event.key) {
        case 'Escape':
          if (isCompleting) {
            completions.dismiss();
            return true;
          }
          if (busy) {
            void controller.interrupt();
            return true;
          }
          return false;
        case 'Tab':
          if (event.shiftKey) {
            return focusApproval(event.currentTarget);
          }
          if (isCompleting) {
            completions.choose();
            return true;
          }
          return false;
        case 'ArrowDown':
          if (isCompleting) {
            completions.move(1);
            return true;
          }
          return selectionEnd === state.draft.length && recall('newer');
        case 'ArrowUp':
          if (isCompleting) {
            completions.move(-1);
            return true;
          }
          return selectionStart === 0 && selectionEnd === 0 && recall('older');
        case 'Enter':
          if (isCompleting && !completions.isWhole && !event.shiftKey) {
            completions.choose();
            return true;
          }
          if (sends(event, settings.sendWith)) {
            send();
            return true;
          }
          return false;
        case 'Backspace': {
          const last = attached[attached.length - 1];
          // Held down it clears the text, and then stops.
          if (selectionEnd > 0 || event.repeat || !last) {
            return false;
          }
          controller.message.detach(last);
          return true;
        }
        default:
          return false;
      }
    })();
    if (handled) {
      event.preventDefault();
      event.stopPropagation();
    }
  };

  return (
    <div className="jp-prime-Composer" data-disabled={disabled}>
      {isCompleting && (
        <CompletionList
          id={listId}
          label={completions.label}
          groups={completions.groups}
          chosen={completions.chosen}
        />
      )}
      <div className="jp-prime-VisuallyHidden" role="status">
        {isCompleting &&
          trans._n('%1 suggestion', '%1 suggestions', completions.count)}
      </div>
      <div id={`${listId}-attached`} hidden>
        {trans.__(
          'Attached: %1',
          attached
            .map(attachment => describeAttachment(attachment, trans).label)
            .join(', ')
        )}
      </div>
      <AttachmentChips
        attachments={attached}
        onRemove={attachment => controller.message.detach(attachment)}
      />
      <textarea
        ref={text}
        rows={1}
        value={state.draft}
        disabled={disabled}
        placeholder={
          disabled
            ? trans.__('Open a notebook first')
            : busy
              ? trans.__('Write on; it is queued')
              : trans.__('Ask (@ mentions, / commands)')
        }
        aria-label={trans.__('Message to the agent')}
        aria-describedby={
          attached.length > 0 ? `${listId}-attached` : undefined
        }
        aria-autocomplete="list"
        aria-controls={isCompleting ? listId : undefined}
        aria-activedescendant={
          isCompleting ? `${listId}-${completions.chosen}` : undefined
        }
        spellCheck={true}
        onChange={event => {
          completions.typed();
          history.current.reset();
          setCursor(cursorOf(event.target));
          controller.message.setText(event.target.value);
        }}
        onSelect={event => setCursor(cursorOf(event.currentTarget))}
        onBlur={() => setCursor(null)}
        onPaste={event => {
          const images = imagesAmong(event.clipboardData.files);
          // Text that comes with a picture of it, as from a spreadsheet, is what is meant.
          if (images.length > 0 && !event.clipboardData.getData('text')) {
            event.preventDefault();
            void controller.message.attachImages(images);
          }
        }}
        onKeyDown={onKeyDown}
      />
      <div className="jp-prime-Composer-bar">
        <ModeSelect state={state} />
        <ModelButton state={state} />
        <span className="jp-prime-Spacer" />
        <ContextMeter conversation={state.conversation} />
        {busy && (
          <button
            type="button"
            className="jp-prime-Stop"
            disabled={state.stopping}
            title={trans.__('Stop (Esc)')}
            aria-label={trans.__('Stop')}
            onClick={() => {
              void controller.interrupt();
            }}
          >
            <stopIcon.react tag="span" />
          </button>
        )}
        {(!busy || state.draft.trim() !== '') && (
          <button
            type="button"
            className="jp-prime-Send"
            disabled={disabled || state.draft.trim() === ''}
            title={
              busy
                ? trans.__('Queue: sent when the agent is free')
                : trans.__('Send')
            }
            aria-label={busy ? trans.__('Queue message') : trans.__('Send')}
            onClick={send}
          >
            <sendIcon.react tag="span" />
          </button>
        )}
      </div>
    </div>
  );
}

/** A native select under its short name: keyboard and screen readers know what to do with it. */
function ModeSelect(props: { state: IPanelState }): JSX.Element {
  const { controller, trans } = usePanel();
  const mode = permissionModeOf(props.state);
  const modes = props.state.server?.permission_modes ?? [mode];
  return (
    <label className="jp-prime-Mode" title={modeDescription(mode, trans)}>
      <span aria-hidden="true">{modeName(mode, trans)}</span>
      <caretDownIcon.react tag="span" />
      <select
        value={mode}
        aria-label={trans.__('Permissions')}
        disabled={modes.length < 2}
        onChange={event => {
          void controller.setPermissionMode(
            event.target.value as PermissionMode
          );
        }}
      >
        {modes.map(value => (
          <option key={value} value={value}>
            {modeDescription(value, trans)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Go to the question that waits, past hints and the queue; `false` if none does. */
function focusApproval(text: HTMLTextAreaElement): boolean {
  const questions = text
    .closest('.jp-prime-Panel')
    ?.querySelectorAll<HTMLElement>('.jp-prime-Approval');
  const newest = questions?.[questions.length - 1];
  newest?.focus();
  return !!newest;
}

/** Where the cursor is; `null` while something is selected. */
function cursorOf(element: HTMLTextAreaElement): number | null {
  const { selectionStart, selectionEnd } = element;
  return selectionStart === selectionEnd ? selectionStart : null;
}

/** As tall as its text, or its placeholder. */
function fitHeight(element: HTMLTextAreaElement): void {
  element.style.height = 'auto';
  const tallest = window.innerHeight * MAX_HEIGHT_SHARE;
  element.style.height = `${Math.min(element.scrollHeight, tallest)}px`;
  element.style.overflowY = element.scrollHeight > tallest ? 'auto' : 'hidden';
}

function sends(
  event: React.KeyboardEvent,
  sendWith: 'enter' | 'accel-enter'
): boolean {
  if (event.shiftKey || event.altKey) {
    return false;
  }
  const accel = event.ctrlKey || event.metaKey;
  return accel || sendWith === 'enter';
}
