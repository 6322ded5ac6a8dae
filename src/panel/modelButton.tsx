import { caretDownIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { IModelInfo } from '../api/rest';
import { usePanel } from './context';
import { IMenuEntry, popUp } from './menus';
import { chosenModelOf, IPanelState, isOffline, modelOf } from './state';

/** A button with the name of the current model that opens a menu of models. */
export function ModelButton(props: { state: IPanelState }): JSX.Element {
  const { server } = props.state;
  const { controller, trans } = usePanel();
  const model = modelOf(props.state);
  const offline = isOffline(props.state);
  const label = offline
    ? trans.__('Offline agent')
    : shortName(model) || trans.__('Default model');
  const title = offline
    ? trans.__(
        'Offline agent: fixed rules, no language model; nothing leaves this machine'
      )
    : server?.endpoint
      ? trans.__('%1 at %2', label, server.endpoint)
      : label;

  const open = async (anchor: HTMLElement): Promise<void> => {
    let models: IModelInfo[] = [];
    try {
      models = await controller.modelConnection.models();
    } catch {
      // Show the menu without models; its entry to connect a model may help.
    }
    const entries: (IMenuEntry | null)[] = models.map(info => ({
      label: info.name || info.id,
      isToggled: info.id === chosenModelOf(props.state),
      run: () => {
        void controller.setModel(info.id);
      }
    }));
    if (entries.length > 0) {
      entries.push(null);
    }
    entries.push({
      label: trans.__('Connect a model…'),
      run: () => controller.showSheet('model')
    });
    popUp(anchor, entries);
  };

  return (
    <button
      type="button"
      className="jp-prime-Model"
      data-offline={offline}
      aria-haspopup="menu"
      aria-label={trans.__('Model: %1', label)}
      title={title}
      onClick={event => {
        void open(event.currentTarget);
      }}
    >
      <span className="jp-prime-Model-name">{label}</span>
      <caretDownIcon.react tag="span" />
    </button>
  );
}

/** Remove the date at the end of a model id. */
function shortName(model: string): string {
  return model.replace(/-\d{8}$/, '');
}
