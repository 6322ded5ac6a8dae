import { caretDownIcon, stopIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { PermissionMode } from '../api/rest';
import { attachmentLabels } from '../mentions/describe';
import { imagesAmong } from '../mentions/images';
import { attachedTo, isSendable, mentionedAgain } from '../mentions/text';
import { AttachmentChips } from './attachmentChips';
import { CompletionList } from './completionList';
import { useCompletions } from './completions';
import { usePanel } from './context';
import { ContextMeter } from './contextMeter';
import { InputHistory } from './inputHistory';
import { sendIcon } from './icons';
import { modeDescription, modeName, PERMISSION_MODES } from './permissionModes';
import { ModelButton } from './modelButton';
import { IPanelState, isAllowed, isBusy, permissionModeOf } from './state';

/** Maximum height of the text field before it scrolls, as a share of the window's height. */
const MAX_HEIGHT_SHARE = 0.35;

/** Number of characters from which a text takes that height at any width, without measuring it. */
const LONG_DRAFT = 20_000;

/** The text field for messages, with its attachments, completions and settings. */
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
  /** Set the cursor after the next update of the text. */
  const moveCursor = (to: number): void => {
    setCursor(to);
    setMove({ to });
  };
  const completions = useCompletions(state, cursor, moveCursor);
  // Otherwise `Down` would bring the draft of the previous session.
  React.useEffect(
    () => history.current.reset(),
    [state.notebook, state.sessionId]
  );
  const isCompleting = completions.count > 0;
  const attached = attachedTo(state.draft, state.attachments);
  const sendable = isSendable(state.draft, state.attachments);

  React.useEffect(() => {
    const focus = (): void => {
      // Wait for the update, which may enable the text field.
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

  // Set the cursor together with the text: a frame later the next key may have been typed.
  React.useLayoutEffect(() => {
    if (move !== null) {
      text.current!.focus();
      text.current!.setSelectionRange(move.to, move.to);
    }
  }, [move]);
  React.useLayoutEffect(() => fitHeight(text.current!), [state.draft, busy]);
  React.useEffect(() => {
    // Lines wrap differently when the width changes.
    const observer = new ResizeObserver(() => fitHeight(text.current!));
    observer.observe(text.current!.parentElement!);
    return () => observer.disconnect();
  }, []);

  const send = (): void => {
    if (sendable && !disabled) {
      history.current.reset();
      void controller.message.send();
    }
  };
  const recall = (direction: 'older' | 'newer'): boolean => {
    const sent = (state.conversation?.items ?? []).flatMap(item =>
      item.kind === 'user' && item.text !== '' ? [item] : []
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
    // Ignore the keys of an input method while it composes.
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
          // A key that is held down clears the text, but must not remove attachments.
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
        {trans.__('Attached: %1', attachmentLabels(attached, trans))}
      </div>
      <AttachmentChips
        attachments={attached}
        onRemove={attachment => controller.message.detach(attachment)}
      />
      <textarea
        ref={text}
        rows={1}
        dir={directionOf(state.draft)}
        value={state.draft}
        disabled={disabled}
        placeholder={
          disabled
            ? trans.__('Open a notebook first')
            : busy
              ? trans.__('Queue the next message')
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
          // If there is text as well, as from a spreadsheet, paste the text.
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
        {(!busy || sendable) && (
          <button
            type="button"
            className="jp-prime-Send"
            disabled={disabled || !sendable}
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

/** A native select that shows a short name; it works with keyboard and screen readers as is. */
function ModeSelect(props: { state: IPanelState }): JSX.Element {
  const { controller, trans } = usePanel();
  const { server } = props.state;
  const mode = permissionModeOf(props.state);
  return (
    <label className="jp-prime-Mode" title={modeDescription(mode, trans)}>
      <span aria-hidden="true">{modeName(mode, trans)}</span>
      <caretDownIcon.react tag="span" />
      <select
        value={mode}
        aria-label={trans.__('Permissions')}
        disabled={server === null}
        onChange={event => {
          void controller.setPermissionMode(
            event.target.value as PermissionMode
          );
        }}
      >
        {PERMISSION_MODES.map(value => {
          const allowed = isAllowed(server, value);
          const description = modeDescription(value, trans);
          return (
            <option key={value} value={value} disabled={!allowed}>
              {allowed
                ? description
                : trans.__('%1 (not allowed on this server)', description)}
            </option>
          );
        })}
      </select>
    </label>
  );
}

/** Focus the latest open approval request; return `false` if there is none. */
function focusApproval(text: HTMLTextAreaElement): boolean {
  const questions = text
    .closest('.jp-prime-Panel')
    ?.querySelectorAll<HTMLElement>('.jp-prime-Approval');
  const newest = questions?.[questions.length - 1];
  newest?.focus();
  return !!newest;
}

/** Return the position of the cursor; `null` while text is selected. */
function cursorOf(element: HTMLTextAreaElement): number | null {
  const { selectionStart, selectionEnd } = element;
  return selectionStart === selectionEnd ? selectionStart : null;
}

const RIGHT_TO_LEFT =
  /\p{Script=Arabic}|\p{Script=Hebrew}|\p{Script=Nko}|\p{Script=Syriac}|\p{Script=Thaana}/u;

/**
 * Direction of the first letter. With `dir="auto"` a browser takes seconds for each change of a long
 * text, such as a pasted log.
 */
function directionOf(draft: string): 'ltr' | 'rtl' | undefined {
  const letter = /\p{L}/u.exec(draft)?.[0];
  if (letter === undefined) {
    return undefined;
  }
  return RIGHT_TO_LEFT.test(letter) ? 'rtl' : 'ltr';
}

/** Fit the height of the text field to its text or placeholder. */
function fitHeight(element: HTMLTextAreaElement): void {
  const tallest = window.innerHeight * MAX_HEIGHT_SHARE;
  if (element.value.length > LONG_DRAFT) {
    element.style.height = `${tallest}px`;
    element.style.overflowY = 'auto';
    return;
  }
  element.style.height = 'auto';
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
