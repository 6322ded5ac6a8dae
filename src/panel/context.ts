import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { IMentionSources } from '../mentions/sources';
import { IPanelSettings } from '../settings/settings';
import { IActiveSessions } from '../tokens';
import { PanelController } from './controller';
import { IPanelState } from './state';

/** What the notebook on show can do for the panel. */
export interface INotebookView {
  /** Scroll to a cell and select it; `false` if the notebook or the cell is not open. */
  revealCell(notebook: string, cellId: string): boolean;
  /** What a cell holds now; `null` if the notebook or the cell is not open. */
  cellSource(notebook: string, cellId: string): string | null;
  /** Put code into a new cell below the active one, as the person's own edit. */
  insertCell(source: string): void;
  /** Language of the notebook's code, as the editors name it. */
  language(): string;
}

/** What all parts of the panel share. */
export interface IPanelContext {
  readonly controller: PanelController;
  readonly trans: TranslationBundle;
  /** Renders what the model and the kernel wrote, as untrusted content. */
  readonly rendermime: IRenderMimeRegistry;
  readonly languages: IEditorLanguageRegistry | null;
  readonly notebookView: INotebookView;
  readonly mentions: IMentionSources;
  /** What goes on elsewhere. */
  readonly active: IActiveSessions;
  /** Lab's commands. */
  readonly commands: CommandRegistry;
  readonly settings: IPanelSettings;
  /** Name of the person at this browser; others are shown by name. */
  readonly userName: string | null;
}

const Context = React.createContext<IPanelContext | null>(null);

export const PanelProvider = Context.Provider;

export function usePanel(): IPanelContext {
  const context = React.useContext(Context);
  if (context === null) {
    throw new Error('Used outside of the panel.');
  }
  return context;
}

/** The controller's state; the component is drawn again when it changes. */
export function usePanelState(): IPanelState {
  const { controller } = usePanel();
  const subscribe = React.useCallback(
    (listener: () => void) => {
      controller.changed.connect(listener);
      return () => {
        controller.changed.disconnect(listener);
      };
    },
    [controller]
  );
  return React.useSyncExternalStore(subscribe, () => controller.snapshot());
}
