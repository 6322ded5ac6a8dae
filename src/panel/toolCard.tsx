import { TranslationBundle } from '@jupyterlab/translation';
import {
  caretDownIcon,
  caretRightIcon,
  checkIcon,
  circleEmptyIcon,
  LabIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import * as React from 'react';

import { ICellChange, IToolItem, ToolStatus } from '../model/items';
import { fencedDiff } from '../model/diff';
import { contentImages, contentText, firstSentence } from '../model/outputs';
import { parsePartialObject } from '../model/partialJson';
import { ApprovalButtons, DecisionLine } from './approval';
import { CodeView } from './codeView';
import { usePanel } from './context';
import { PanelController } from './controller';
import { DiffView, TextDiff, Versions } from './diffView';
import { duration, fullCount } from './format';
import { failedIcon } from './icons';
import { MarkdownView } from './markdownView';
import { OutputsView } from './outputsView';
import { Elapsed } from './elapsed';
import { reasonText } from './reasonText';
import { codeLine, IToolFace, toolFace, toolSummary } from './tools';

/** A tool call: a line that expands to the input and the result. */
export const ToolCard = React.memo(
  (props: { item: IToolItem }): JSX.Element => {
    const { item } = props;
    const { trans, settings } = usePanel();
    const face = toolFace(item.name, trans);
    const input = React.useMemo(
      () => item.input ?? parsePartialObject(item.inputText) ?? {},
      [item.input, item.inputText]
    );
    // The user's choice takes precedence over the default.
    const [chosen, setChosen] = React.useState<boolean | null>(null);
    const open = chosen ?? opensByItself(item, settings.toolCards);
    const source = useCellSource(item, input);
    const summary = toolSummary(face, input) || codeLine(source ?? '');
    const [failure, rest] = failureText(item, trans);
    const bodyId = React.useId();
    const Caret = open ? caretDownIcon : caretRightIcon;
    return (
      <div
        className="jp-prime-Tool"
        data-status={item.status}
        data-tool={item.name}
      >
        <div className="jp-prime-Tool-header">
          <button
            type="button"
            className="jp-prime-Tool-toggle"
            aria-expanded={open}
            aria-controls={bodyId}
            title={summary || undefined}
            onClick={() => setChosen(!open)}
          >
            <Caret.react tag="span" className="jp-prime-Caret" />
            <face.icon.react tag="span" className="jp-prime-Tool-icon" />
            <span className="jp-prime-Tool-name">{face.name}</span>
            <span className="jp-prime-Tool-summary">{summary}</span>
            <ToolTime item={item} />
            <StatusMark status={item.status} />
          </button>
        </div>
        {item.message && item.status === 'running' && (
          <div className="jp-prime-Tool-message">{item.message}</div>
        )}
        {failure && <div className="jp-prime-Tool-failure">{failure}</div>}
        {open && (
          <div className="jp-prime-Tool-body" id={bodyId}>
            <ToolInput item={item} face={face} input={input} source={source} />
            <ToolAnswer item={item} text={rest} />
            <ToolLinks item={item} input={input} />
          </div>
        )}
        {item.approval?.decision === null && (
          <ApprovalButtons
            approval={item.approval}
            question={item.approval.summary}
          />
        )}
      </div>
    );
  }
);

/**
 * Whether a card is open by default: if there is a decision to make or a result to look at. Cells
 * show their outputs in the notebook; other outputs are shown only here.
 */
function opensByItself(
  item: IToolItem,
  mode: 'auto' | 'collapsed' | 'expanded'
): boolean {
  if (item.approval?.decision === null) {
    return true;
  }
  switch (mode) {
    case 'collapsed':
      return false;
    case 'expanded':
      return true;
    case 'auto':
      return (
        bothSides(item.change) !== null ||
        // An error, or outputs without a cell.
        (item.outputs.length > 0 &&
          (item.status === 'error' ||
            item.name === 'run_code' ||
            !!item.change?.reason))
      );
  }
}

function notebookOf(controller: PanelController): string | null {
  return controller.snapshot().conversation?.notebook ?? controller.notebook;
}

/** Return the source of the call's cell: as the call changed it, else as it is in the notebook. */
function useCellSource(
  item: IToolItem,
  input: Readonly<Record<string, unknown>>
): string | undefined {
  const { controller, notebookView } = usePanel();
  const { change } = item;
  const known = change?.after?.source ?? change?.before?.source;
  const cellId = input.cell_id;
  const notebook = notebookOf(controller);
  if (known !== undefined || typeof cellId !== 'string' || notebook === null) {
    return known;
  }
  return notebookView.cellSource(notebook, cellId) ?? undefined;
}

/** Return the source in the notebook and the one the agent wanted; `null` unless they conflict. */
function bothSides(
  change: ICellChange | null
): { here: string; wanted: string } | null {
  const here = change?.before?.source;
  const wanted = change?.after?.source;
  return change?.status === 'conflict' &&
    here !== undefined &&
    wanted !== undefined &&
    here !== wanted
    ? { here, wanted }
    : null;
}

/**
 * Return the error message for the user, and the rest of the result's text. That text addresses the
 * model, so it is omitted if the reason is known.
 */
function failureText(
  item: IToolItem,
  trans: TranslationBundle
): [string, string] {
  if (item.change?.reason) {
    return [reasonText(item.change, trans), ''];
  }
  if (item.status === 'denied') {
    return ['', ''];
  }
  const text = contentText(item.content);
  return item.status === 'error' && item.outputs.length === 0
    ? firstSentence(text)
    : ['', text];
}

function ToolInput(props: {
  item: IToolItem;
  face: IToolFace;
  input: Readonly<Record<string, unknown>>;
  /** Source of the call's cell. */
  source: string | undefined;
}): JSX.Element | null {
  const { item, face, input } = props;
  const { trans } = usePanel();
  const { change, approval } = item;
  if (approval?.detail && approval.decision === null) {
    const lines = fencedDiff(approval.detail);
    return lines ? (
      <DiffView lines={lines} />
    ) : (
      <MarkdownView text={approval.detail} />
    );
  }
  const sides = bothSides(change);
  if (sides) {
    return (
      <Versions
        here={sides.here}
        other={sides.wanted}
        otherName={trans.__('The agent’s version')}
      />
    );
  }
  const before = change?.before?.source;
  const after = change?.after?.source;
  if (before !== undefined && after !== undefined && before !== after) {
    return <TextDiff before={before} after={after} />;
  }
  if (
    item.name === 'edit_file' &&
    typeof input.old === 'string' &&
    typeof input.new === 'string'
  ) {
    return <TextDiff before={input.old} after={input.new} />;
  }
  const body = (face.body ? input[face.body] : undefined) ?? props.source;
  if (typeof body === 'string') {
    return (
      <CodeView
        code={body}
        language={
          input.cell_type === 'markdown'
            ? 'markdown'
            : typeof input.path === 'string'
              ? (input.path.split('.').pop() ?? '')
              : undefined
        }
      />
    );
  }
  const rest = Object.entries(input);
  if (rest.length === 0) {
    return null;
  }
  return (
    <dl className="jp-prime-Tool-input" aria-label={trans.__('Input')}>
      {rest.map(([key, value]) => (
        <React.Fragment key={key}>
          <dt>{key}</dt>
          <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

function ToolAnswer(props: {
  item: IToolItem;
  text: string;
}): JSX.Element | null {
  const { item, text } = props;
  const { trans } = usePanel();
  const images = React.useMemo(
    () => (item.outputs.length ? [] : contentImages(item.content)),
    [item.outputs, item.content]
  );
  return (
    <>
      {item.outputs.length > 0 ? (
        <OutputsView outputs={item.outputs} />
      ) : (
        text && (
          <>
            {item.status === 'error' && (
              <div className="jp-prime-Tool-note">
                {trans.__('The agent is also told:')}
              </div>
            )}
            <pre
              className="jp-prime-Tool-text"
              tabIndex={0}
              aria-label={trans.__('Result')}
            >
              {text}
            </pre>
          </>
        )
      )}
      {images.length > 0 && <OutputsView outputs={images} />}
      {item.outputFile && (
        <div className="jp-prime-Tool-note">
          {item.leftOut === 0
            ? trans.__(
                'The agent was given only the beginning and the end. The full output is in %1.',
                `outputs/${item.outputFile}`
              )
            : trans.__(
                'The agent was given only the beginning and the end. %1 has more, except for %2 characters that were too many to keep.',
                `outputs/${item.outputFile}`,
                fullCount(item.leftOut)
              )}
        </div>
      )}
    </>
  );
}

function ToolLinks(props: {
  item: IToolItem;
  input: Readonly<Record<string, unknown>>;
}): JSX.Element | null {
  const { item, input } = props;
  const { controller, notebookView, trans } = usePanel();
  const cellId =
    item.change?.cellId ??
    (typeof input.cell_id === 'string' ? input.cell_id : null);
  const [missing, setMissing] = React.useState(false);
  return (
    <>
      {cellId !== null && item.name !== 'delete_cell' && (
        <button
          type="button"
          className="jp-prime-Link"
          onClick={() => {
            const notebook = notebookOf(controller);
            setMissing(
              notebook === null || !notebookView.revealCell(notebook, cellId)
            );
          }}
        >
          {missing
            ? trans.__('There is no such cell')
            : trans.__('Show the cell')}
        </button>
      )}
      {item.approval && <DecisionLine approval={item.approval} />}
    </>
  );
}

function ToolTime(props: { item: IToolItem }): JSX.Element | null {
  const { item } = props;
  const { trans } = usePanel();
  if (item.status === 'running' && item.startedAt !== null) {
    return <Elapsed since={item.startedAt} className="jp-prime-Tool-time" />;
  }
  return item.durationMs ? (
    <span className="jp-prime-Tool-time">
      {duration(item.durationMs, trans)}
    </span>
  ) : null;
}

function StatusMark(props: { status: ToolStatus }): JSX.Element {
  const { trans } = usePanel();
  const marks: Record<ToolStatus, [LabIcon | null, string]> = {
    writing: [null, trans.__('being written')],
    waiting: [circleEmptyIcon, trans.__('waiting')],
    approval: [circleEmptyIcon, trans.__('needs your decision')],
    running: [null, trans.__('running')],
    ok: [checkIcon, trans.__('done')],
    error: [failedIcon, trans.__('failed')],
    denied: [stopIcon, trans.__('denied')],
    stopped: [stopIcon, trans.__('stopped')]
  };
  const [Icon, label] = marks[props.status];
  return (
    <span
      className="jp-prime-Tool-status"
      role="img"
      aria-label={label}
      title={label}
    >
      {Icon ? <Icon.react tag="span" /> : <span className="jp-prime-Spinner" />}
    </span>
  );
}
