import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { CellCommandIDs } from './cellCommands';
import { CommandIDs } from './commands';
import { usePanel } from './context';
import { Sheet } from './sheet';
import { slashCommands } from './slash';

/** The list of commands and keys. */
export function HelpSheet(): JSX.Element {
  const { controller, trans, settings, commands } = usePanel();
  /** The row of a command, with the keys that the user has given it; none if it has no keys. */
  const shortcut = (command: string, description: string): [string, string][] =>
    commands.keyBindings
      .filter(binding => binding.command === command)
      .map(({ keys }) => [CommandRegistry.formatKeystroke(keys), description]);
  const keys: [string, string][] = [
    [
      settings.sendWith === 'enter'
        ? trans.__('Enter')
        : trans.__('Ctrl/⌘ Enter'),
      trans.__('Send; while the agent works, queue')
    ],
    [trans.__('Shift Enter'), trans.__('New line')],
    [
      '@',
      trans.__(
        'Mention a cell, a selection, a variable, a file, the last error'
      )
    ],
    ...shortcut(CommandIDs.open, trans.__('Open the panel')),
    ...shortcut(
      CellCommandIDs.ask,
      trans.__('In a notebook: ask about the selected cells')
    ),
    ...shortcut(
      CellCommandIDs.fix,
      trans.__('In a notebook: fix the cell’s error')
    ),
    [trans.__('Up, Down'), trans.__('Earlier messages')],
    [trans.__('Esc'), trans.__('Stop the agent')],
    [trans.__('A, S, D'), trans.__('Allow once, for the session, deny')]
  ];
  return (
    <Sheet
      title={trans.__('Commands and keys')}
      onClose={() => controller.showSheet('none')}
    >
      <dl className="jp-prime-Help">
        {slashCommands(trans).map(({ name, argument, description }) => (
          <React.Fragment key={name}>
            <dt>
              <code>
                /{name} {argument}
              </code>
            </dt>
            <dd>{description}</dd>
          </React.Fragment>
        ))}
        {keys.map(([key, description], index) => (
          <React.Fragment key={index}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{description}</dd>
          </React.Fragment>
        ))}
      </dl>
    </Sheet>
  );
}
