import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import {
  CandidateGroup,
  ICandidate,
  ICandidateGroup,
  rank
} from '../mentions/candidates';
import {
  freeMention,
  insertMention,
  isSame,
  ITrigger,
  triggerAt
} from '../mentions/text';
import { AttachmentIcon } from './attachmentChips';
import { ICompletionGroup } from './completionList';
import { usePanel } from './context';
import { completions, ISlashCommand, slashCommands } from './slash';
import { IPanelState } from './state';

/** The completions at the cursor, and the index of the selected one. */
export interface ICompletions {
  readonly label: string;
  readonly groups: readonly ICompletionGroup[];
  readonly count: number;
  readonly chosen: number;
  /** Whether the text is a complete command already, so that Enter sends it. */
  readonly isWhole: boolean;
  move(by: 1 | -1): void;
  choose(): void;
  dismiss(): void;
  /** Update the state after the user has typed. */
  typed(): void;
}

/**
 * Complete commands if the text begins with a slash, and mentions after an `@`.
 *
 * @param cursor - Position of the cursor; `null` while text is selected.
 * @param setCursor - Called with the new position of the cursor when a completion is inserted.
 */
export function useCompletions(
  state: IPanelState,
  cursor: number | null,
  setCursor: (cursor: number) => void
): ICompletions {
  const { controller, trans } = usePanel();
  const { draft } = state;
  const [active, setActive] = React.useState(0);
  const [dismissed, setDismissed] = React.useState<string | null>(null);
  const commands = React.useMemo(() => slashCommands(trans), [trans]);

  const found = cursor === null ? null : triggerAt(draft, cursor);
  // A dismissed mention stays dismissed until another one is started. A mention that already has
  // its attachment is not completed again.
  const isSettled =
    dismissed === `@${found?.start}` ||
    state.attachments.some(({ mention }) => mention === `@${found?.query}`);
  const trigger = isSettled ? null : found;
  const candidates = useCandidates(trigger, state.notebook);
  const matches = dismissed === draft ? [] : completions(commands, draft);

  const completeCommand = (command: ISlashCommand): void => {
    const text = `/${command.name}${command.argument ? ' ' : ''}`;
    controller.message.setText(text);
    setDismissed(`/${command.name}`);
    setCursor(text.length);
  };
  const mention = (candidate: ICandidate, at: ITrigger): void => {
    let written = candidate.mention;
    if (candidate.attachment) {
      const { attachment } = candidate;
      const known = state.attachments.find(other => isSame(other, attachment));
      written =
        known?.mention ?? freeMention(candidate.mention, state.attachments);
      controller.message.attach({ ...attachment, mention: written });
    }
    const { text, cursor } = insertMention(draft, at, written);
    controller.message.setText(text);
    setActive(0);
    setCursor(cursor);
  };

  const groups: ICompletionGroup[] = trigger
    ? candidates.map(group => ({
        key: group.group,
        heading: headingOf(group.group, trans),
        completions: group.candidates.map(candidate => ({
          key: `${candidate.mention} ${candidate.detail}`,
          title: [candidate.label, candidate.detail].join('\n'),
          content: <CandidateView candidate={candidate} />,
          choose: () => mention(candidate, trigger)
        }))
      }))
    : matches.length > 0
      ? [
          {
            key: 'commands',
            heading: null,
            completions: matches.map(command => ({
              key: command.name,
              content: <CommandView command={command} />,
              choose: () => completeCommand(command)
            }))
          }
        ]
      : [];
  const options = groups.flatMap(group => group.completions);
  const chosen = Math.min(active, options.length - 1);
  return {
    label: trigger ? trans.__('Mentions') : trans.__('Commands'),
    groups,
    count: options.length,
    chosen,
    isWhole: !trigger && `/${matches[chosen]?.name}` === draft,
    move: by => setActive((chosen + options.length + by) % options.length),
    choose: () => options[chosen]?.choose(),
    dismiss: () => setDismissed(trigger ? `@${trigger.start}` : draft),
    typed: () => {
      setActive(0);
      if (!found) {
        setDismissed(null);
      }
    }
  };
}

/** Candidates for the mention being typed. Variables and files are added when they arrive. */
function useCandidates(
  trigger: ITrigger | null,
  notebook: string | null
): readonly ICandidateGroup[] {
  const { mentions } = usePanel();
  const isOpen = trigger !== null;
  const query = trigger?.query ?? '';
  const folder = query.slice(0, query.lastIndexOf('/') + 1);
  const [variables, setVariables] = React.useState<readonly ICandidate[]>([]);
  const [files, setFiles] = React.useState<readonly ICandidate[]>([]);
  const here = React.useMemo(
    () => (isOpen ? mentions.here() : []),
    [mentions, isOpen, notebook]
  );
  useArriving(
    isOpen ? () => mentions.variables() : null,
    [mentions, isOpen, notebook],
    setVariables
  );
  useArriving(
    isOpen ? () => mentions.files(folder) : null,
    [mentions, isOpen, notebook, folder],
    setFiles
  );
  return React.useMemo(
    () => (isOpen ? rank([...here, ...variables, ...files], query) : []),
    [isOpen, here, variables, files, query]
  );
}

/** Keep the result of the latest request; an empty list if it fails. */
function useArriving(
  request: (() => Promise<ICandidate[]>) | null,
  dependencies: unknown[],
  keep: (candidates: readonly ICandidate[]) => void
): void {
  React.useEffect(() => {
    if (!request) {
      return;
    }
    let isCurrent = true;
    request().then(
      candidates => isCurrent && keep(candidates),
      () => isCurrent && keep([])
    );
    return () => {
      isCurrent = false;
    };
  }, dependencies);
}

function headingOf(
  group: CandidateGroup,
  trans: TranslationBundle
): string | null {
  switch (group) {
    case 'front':
      return null;
    case 'cells':
      return trans.__('Cells');
    case 'variables':
      return trans.__('Variables');
    case 'files':
      return trans.__('Files');
  }
}

function CandidateView(props: { candidate: ICandidate }): JSX.Element {
  const { kind, label, detail } = props.candidate;
  return (
    <>
      <AttachmentIcon kind={kind} />
      <span className="jp-prime-Completion-label">{label}</span>
      <span
        className="jp-prime-Completion-detail"
        data-code={kind === 'cell' || kind === 'variable'}
      >
        {detail}
      </span>
    </>
  );
}

function CommandView(props: { command: ISlashCommand }): JSX.Element {
  const { name, argument, description } = props.command;
  return (
    <>
      <span className="jp-prime-Completion-label" data-code>
        /{name}
        {argument && <i> {argument}</i>}
      </span>
      <span className="jp-prime-Completion-detail">{description}</span>
    </>
  );
}
