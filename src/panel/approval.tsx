import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IApprovalItem, IApprovalState } from '../model/items';
import { usePanel, usePanelState } from './context';
import { MarkdownView } from './markdownView';

/**
 * The buttons of an approval request. The group takes the focus when it appears, but never from a
 * field: a key that was meant for the text or the selection must not decide.
 */
export function ApprovalButtons(props: {
  approval: IApprovalState;
  question: string;
}): JSX.Element {
  const { approval } = props;
  const { controller, trans } = usePanel();
  const group = React.useRef<HTMLDivElement>(null);
  const busy = usePanelState().deciding.has(approval.callId);
  const decide = (
    decision: 'allow' | 'deny',
    scope: 'once' | 'session' = 'once'
  ): void => {
    const panel = group.current!.closest('.jp-prime-Panel');
    void controller.decide(approval.callId, decision, scope).then(() => {
      // The buttons have disappeared, unless the focus has moved on: then leave it there.
      const active = document.activeElement;
      if (active === document.body || panel?.contains(active)) {
        controller.requestFocus();
      }
    });
  };
  React.useEffect(() => {
    if (mayTakeFocus(group.current!)) {
      group.current!.focus({ preventScroll: true });
    }
  }, [approval.callId]);
  const labels = buttonLabels(approval.what, trans);
  return (
    <div
      className="jp-prime-Approval"
      role="group"
      aria-label={props.question}
      tabIndex={-1}
      ref={group}
      onKeyDown={event => {
        if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) {
          return;
        }
        const key = event.key.toLowerCase();
        if (key === 'a') {
          decide('allow');
        } else if (key === 's' && labels.session) {
          decide('allow', 'session');
        } else if (key === 'd') {
          decide('deny');
        } else {
          return;
        }
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <div className="jp-prime-Approval-question">{props.question}</div>
      <div className="jp-prime-Approval-buttons">
        <button
          type="button"
          className="jp-prime-Button jp-mod-accept"
          disabled={busy}
          title={trans.__('Key: A')}
          onClick={() => decide('allow')}
        >
          {labels.once}
        </button>
        <button
          type="button"
          className="jp-prime-Button"
          disabled={busy}
          title={trans.__('Key: D')}
          onClick={() => decide('deny')}
        >
          {labels.deny}
        </button>
        {labels.session && (
          <button
            type="button"
            className="jp-prime-Button"
            disabled={busy}
            title={trans.__('Key: S')}
            onClick={() => decide('allow', 'session')}
          >
            {labels.session}
          </button>
        )}
      </div>
    </div>
  );
}

/** Consent before the first message to a remote model, or a limit that a turn has reached. */
export const ApprovalCard = React.memo(
  (props: { item: IApprovalItem }): JSX.Element => {
    const { approval } = props.item;
    const { trans } = usePanel();
    const title = {
      consent: trans.__('Before the first message is sent'),
      limit: trans.__('This turn has reached its limit'),
      tool: trans.__('Permission needed')
    }[approval.what];
    return (
      <section className="jp-prime-Card" data-what={approval.what}>
        <h3 className="jp-prime-Card-title">{title}</h3>
        {approval.decision === null ? (
          <>
            {approval.detail && <MarkdownView text={approval.detail} />}
            <ApprovalButtons approval={approval} question={approval.summary} />
          </>
        ) : (
          <>
            <div>{approval.summary}</div>
            <DecisionLine approval={approval} />
          </>
        )}
      </section>
    );
  }
);

/** The decision, with the name of the user if it was not the current one. */
export function DecisionLine(props: {
  approval: IApprovalState;
}): JSX.Element | null {
  const { approval } = props;
  const { trans, userName } = usePanel();
  if (approval.decision === null) {
    return null;
  }
  const other =
    approval.user !== null && approval.user !== userName ? approval.user : null;
  let text: string;
  if (approval.decision === 'void') {
    text = trans.__('Not decided; the turn ended');
  } else if (approval.decision === 'deny') {
    text = other ? trans.__('Denied by %1', other) : trans.__('Denied');
  } else if (approval.scope === 'session') {
    text = other
      ? trans.__('Allowed for this session by %1', other)
      : trans.__('Allowed for this session');
  } else {
    text = other ? trans.__('Allowed by %1', other) : trans.__('Allowed');
  }
  return <div className="jp-prime-Decision">{text}</div>;
}

function buttonLabels(
  what: IApprovalState['what'],
  trans: TranslationBundle
): { once: string; session: string | null; deny: string } {
  switch (what) {
    case 'consent':
      return {
        once: trans.__('Send'),
        session: null,
        deny: trans.__('Do not send')
      };
    case 'limit':
      return {
        once: trans.__('Continue'),
        session: null,
        deny: trans.__('Stop here')
      };
    case 'tool':
      return {
        once: trans.__('Allow once'),
        session: trans.__('Allow for this session'),
        deny: trans.__('Deny')
      };
  }
}

/** Whether the focus is in the same panel but not in a field. */
function mayTakeFocus(element: HTMLElement): boolean {
  const active = document.activeElement;
  const panel = element.closest('.jp-prime-Panel');
  return (
    !!panel &&
    !!active &&
    panel.contains(active) &&
    !active.matches('textarea, select, input')
  );
}
