/* eslint-disable jupyter/prefer-lazy-imports -- Lab restores the panel when it starts, so all of it is needed at once */
import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin,
  JupyterLab
} from '@jupyterlab/application';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { IEditorTracker } from '@jupyterlab/fileeditor';
import { INotebookTracker } from '@jupyterlab/notebook';
import {
  IRenderMimeRegistry,
  RenderMimeRegistry
} from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { PrimeApi } from '../api/rest';
import { MentionSources } from '../mentions/sources';
import { PanelSettings } from '../settings/settings';
import {
  IActiveSessions,
  IChatPanel,
  INotebookWriter,
  ISessions,
  ISessionStreams
} from '../tokens';
import { PanelController } from './controller';
import { describedImageFactory } from './describedImage';
import { Drafts } from './drafts';
import { DropTarget } from './dropTarget';
import { NotebookFollower } from './notebookFollower';
import { UntrustedRenderers, UntrustedSanitizer } from './untrusted';
import { PanelWidget } from './widget';

const PLUGIN_ID = 'prime_ext:plugin';

/** Rank after JupyterLab's own panels in the right area. */
const RANK = 900;

/** Delay of updates while the page is hidden, in milliseconds. */
const HIDDEN_PAUSE = 500;

export const panel: JupyterFrontEndPlugin<IChatPanel> = {
  id: PLUGIN_ID,
  description: 'An agent that works in the open notebook.',
  autoStart: true,
  provides: IChatPanel,
  requires: [
    ISessions,
    ISessionStreams,
    IActiveSessions,
    INotebookTracker,
    IRenderMimeRegistry
  ],
  optional: [
    ITranslator,
    ISettingRegistry,
    IEditorLanguageRegistry,
    ILabShell,
    ILayoutRestorer,
    IEditorTracker,
    INotebookWriter
  ],
  activate: (
    app: JupyterFrontEnd,
    sessions: ISessions,
    streams: ISessionStreams,
    active: IActiveSessions,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null,
    settingRegistry: ISettingRegistry | null,
    languages: IEditorLanguageRegistry | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    editors: IEditorTracker | null,
    notebookWriter: INotebookWriter | null
  ): IChatPanel => {
    const trans = (translator ?? nullTranslator).load('prime_ext');
    const { contents, serverSettings, user } = app.serviceManager;

    const settings = new PanelSettings();
    settings.changed.connect(() => {
      const { permissionMode, model, restoreVariables } = settings.value;
      controller.setNewSession({ permissionMode, model });
      controller.variables.setRestoreMode(restoreVariables);
    });
    if (settingRegistry) {
      settings.load(settingRegistry, PLUGIN_ID).catch(reason => {
        console.error('Prime: the settings could not be loaded.', reason);
      });
    }

    const api = new PrimeApi(serverSettings, trans);
    const mentions = new MentionSources({
      tracker,
      editors,
      shell: app.shell,
      contents,
      api,
      trans
    });

    const controller: PanelController = new PanelController({
      api,
      sessions,
      streams,
      drafts: new Drafts(window.localStorage, serverSettings.baseUrl),
      fill: attachment => mentions.fill(attachment),
      claimed: async notebook => notebookWriter?.claimed(notebook),
      activate: () => app.shell.activateById(widget.id),
      isVisible: () => widget.isVisible && !document.hidden,
      schedule: callback => {
        if (document.hidden) {
          window.setTimeout(callback, HIDDEN_PAUSE);
        } else {
          requestAnimationFrame(callback);
        }
      },
      messages: {
        noNotebook: trans.__('Open a notebook first.'),
        notSent: trans.__('The message was not sent.'),
        notSentHint: trans.__(
          'Send it again when the Jupyter server responds.'
        ),
        nothingToCompact: trans.__('There is no conversation to compact yet.'),
        nothingSaved: trans.__('No variables were saved for this session.'),
        imageUnreadable: trans.__('The browser cannot read this image.'),
        recordsLost: trans.__(
          'The server crashed before the end of this conversation was saved. The part that was saved is shown.'
        )
      }
    });

    const resolver = new RenderMimeRegistry.UrlResolver({ path: '', contents });
    controller.changed.connect(() => {
      resolver.path = controller.notebook ?? '';
    });

    const renderers = new UntrustedRenderers(
      rendermime,
      {
        resolver,
        sanitizer: new UntrustedSanitizer(
          rendermime.sanitizer,
          trans,
          () => settings.value.loadRemoteImages
        )
      },
      describedImageFactory(trans)
    );

    const widget: PanelWidget = new PanelWidget(
      {
        controller,
        trans,
        renderers,
        languages,
        notebookView: new NotebookFollower(
          tracker,
          controller,
          sessions,
          contents,
          app.restored,
          app.shell.currentChanged
        ),
        mentions,
        active,
        commands: app.commands
      },
      settings,
      user
    );
    const dropTarget = new DropTarget(widget.node, {
      localPath: path => contents.localPath(path),
      attach: (...attachments) => controller.message.attach(...attachments),
      attachImages: files => void controller.message.attachImages(files),
      isOpen: () => controller.notebook !== null
    });
    widget.disposed.connect(() => dropTarget.dispose());
    if (app instanceof JupyterLab) {
      // What is on screen by then may need renderers of plugins that were activated later.
      void app.allPluginsActivated.then(() => widget.update());
    }
    restorer?.add(widget, 'prime');
    if (labShell) {
      labShell.add(widget, 'right', { rank: RANK, type: 'Prime' });
    } else {
      app.shell.add(widget, 'right', { rank: RANK });
    }
    return controller;
  }
};
