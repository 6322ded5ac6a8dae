import { TranslationBundle } from '@jupyterlab/translation';

export interface ISlashCommand {
  readonly name: string;
  /** Placeholder of the argument; empty if there is none. */
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

/** Return the commands that complete the text; none unless all of it is the start of a command. */
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
 * Parse a command that the panel can execute itself; any other text is sent to the agent. The
 * offline agent answers `/help` itself, so the caller has to check that case.
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
