import { TranslationBundle } from '@jupyterlab/translation';

export interface ISlashCommand {
  readonly name: string;
  /** What may follow the name. */
  readonly argument: string;
  readonly description: string;
}

export function slashCommands(trans: TranslationBundle): ISlashCommand[] {
  return [
    {
      name: 'help',
      argument: '',
      description: trans.__('What the agent can do')
    },
    {
      name: 'tour',
      argument: '',
      description: trans.__('A guided tour of every feature')
    },
    {
      name: 'compact',
      argument: trans.__('[what to keep]'),
      description: trans.__('Shorten the conversation, keep the kernel')
    },
    {
      name: 'new',
      argument: '',
      description: trans.__('Start a new session on this notebook')
    }
  ];
}

/** Commands that complete what is typed; none unless it is nothing but the start of one. */
export function completions(
  commands: readonly ISlashCommand[],
  text: string
): ISlashCommand[] {
  const match = text.match(/^\/(\w*)$/);
  return match
    ? commands.filter(({ name }) => name.startsWith(match[1].toLowerCase()))
    : [];
}

/**
 * A command that the panel carries out itself; all other text is for the agent. What the offline
 * agent can do it says itself: whether `/help` is the panel's depends on who answers.
 */
export function localCommand(
  text: string
): { name: 'compact' | 'help' | 'new'; rest: string } | null {
  const match = text.trim().match(/^\/(compact|help|new)(?:\s+([\s\S]*))?$/i);
  return match
    ? {
        name: match[1].toLowerCase() as 'compact' | 'help' | 'new',
        rest: (match[2] ?? '').trim()
      }
    : null;
}
