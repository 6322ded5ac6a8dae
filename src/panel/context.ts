import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { IMentionSources } from '../mentions/sources';
import { IPanelSettings } from '../settings/settings';
import { IActiveSessions } from '../tokens';
import { PanelController } from './controller';
import { IPanelState } from './state';
import { UntrustedRenderers } from './untrusted';

/** Access of the panel to the open notebooks. */
export interface INotebookView {
  /** Scroll to a cell and select it; `false` if the notebook or the cell is not open. */
  revealCell(notebook: string, cellId: string): boolean;
  /** Return the source of a cell; `null` if the notebook or the cell is not open. */
  cellSource(notebook: string, cellId: string): string | null;
  /** Insert code as a new cell below the active one, like an edit of the user. */
  insertCell(source: string): void;
  /** Return the language of the notebook's code, by the name that the editors use. */
  language(): string;
}

/** The services and settings that all components of the panel share. */
export interface IPanelContext {
  readonly controller: PanelController;
  readonly trans: TranslationBundle;
  /** Renderers for text of the model and outputs of the kernel, which are untrusted. */
  readonly renderers: Pick<UntrustedRenderers, 'current'>;
  readonly languages: IEditorLanguageRegistry | null;
  readonly notebookView: INotebookView;
  readonly mentions: IMentionSources;
  /** Active sessions, and notebooks in use by other processes. */
  readonly active: IActiveSessions;
  /** The application's commands. */
  readonly commands: CommandRegistry;
  readonly settings: IPanelSettings;
  /** Name of the current user; the names of other users are shown. */
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

/** Return the controller's state and re-render the component when it changes. */
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
