using System;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;

namespace Scoregate.Samples
{
    /// <summary>
    /// A whole game with a leaderboard: put this on an empty object of an empty scene, start a gateway with the board of
    /// docs/how-to/put-your-game-on-it.md, and press play. Set the fixed timestep of the project to 1/60.
    /// </summary>
    public sealed class FiveMinutes : MonoBehaviour
    {
        private const string TokenKey = "scoregate.token";

        [SerializeField]
        private string gateway = "http://localhost:8080";

        [SerializeField]
        private string board = "buttons";

        [SerializeField]
        private string build = "buttons-1";

        private readonly CancellationTokenSource end = new CancellationTokenSource();
        private ScoregateClient client;
        private Run run;
        private ButtonGame game;
        private Recorder recorder;
        private bool isPressed;
        private string shown = "";

        private void Start()
        {
            client = new ScoregateClient(gateway) { Token = PlayerPrefs.GetString(TokenKey, null) };
            Attempt(Begin);
        }

        private async Task Begin()
        {
            shown = "One moment";
            if (string.IsNullOrEmpty(client.Token))
            {
                await client.CreatePlayer("Ada", end.Token);
                PlayerPrefs.SetString(TokenKey, client.Token);
                PlayerPrefs.Save();
            }

            await client.Flush(end.Token); // what was played in the tunnel
            run = await client.OpenRun(board, build, cancel: end.Token);
            recorder = new Recorder(run.CheckpointTicks);
            game = new ButtonGame(run.Seed);
            shown = "Go";
        }

        private void FixedUpdate()
        {
            if (game == null)
            {
                return;
            }

            var input = isPressed ? 1u : 0u;
            var goesOn = game.Tick(input);
            recorder.Tick(input);
            if (recorder.IsCheckpointDue)
            {
                recorder.Checkpoint(game.StateHash());
            }

            if (!goesOn)
            {
                var claim = new Claim(game.Score, recorder.Ticks, recorder.Finish());
                game = null;
                Attempt(() => Send(claim));
            }
        }

        private async Task Send(Claim claim)
        {
            shown = "Sending " + claim.Score;
            await client.SubmitLater(run, claim, cancel: end.Token); // from here on it cannot be lost
            var report = await client.Flush(end.Token);
            foreach (var outcome in report.Outcomes)
            {
                if (outcome.Receipt != null && outcome.Entry.Ticket == run.Ticket)
                {
                    var submission = await client.WaitUntilSettled(outcome.Receipt.Submission, cancel: end.Token);
                    shown = submission.State + ", rank " + submission.Rank;
                    return;
                }
            }

            shown = "Saved. It is sent when the network is back.";
        }

        private async void Attempt(Func<Task> task)
        {
            try
            {
                await task();
            }
            catch (ScoregateError error)
            {
                shown = error.Detail;
                Debug.LogWarning(error);
            }
            catch (OperationCanceledException)
            {
                // The scene is over.
            }
        }

        private void OnGUI()
        {
            GUI.Label(new Rect(20, 20, 600, 40), game == null ? shown : shown + " " + game.Score);
            var isHeld = GUI.RepeatButton(new Rect(20, 60, 200, 80), "Press");
            if (Event.current.type == EventType.Repaint)
            {
                isPressed = isHeld;
            }
        }

        private void OnDestroy() => end.Cancel();
    }
}
