import * as React from 'react';

import { usePanel } from './context';
import { Sheet } from './sheet';
import { slashCommands } from './slash';

/** The list of commands and keys. */
export function HelpSheet(): JSX.Element {
  const { controller, trans, settings } = usePanel();
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
    [trans.__('Alt Shift P'), trans.__('Open the panel')],
    [trans.__('Alt Shift C'), trans.__('In a notebook: ask about the cells')],
    [trans.__('Alt Shift E'), trans.__('In a notebook: fix the cell’s error')],
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
        {keys.map(([key, description]) => (
          <React.Fragment key={key}>
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
