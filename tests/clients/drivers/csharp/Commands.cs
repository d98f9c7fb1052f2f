using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Scoregate;

/// <summary>What the driver can do.</summary>
internal static class Commands
{
    /// <summary>Return the answer to a request; null if this client lacks what is asked for.</summary>
    internal static Task<JsonValue> Do(Session session, JsonValue told)
    {
        switch (told["do"].AsText())
        {
            case "sign":
                return told["algorithm"].AsText() == "hmac-sha256" ? Task.FromResult(Pure.Sign(told)) : null;
            case "content_digest":
                return Task.FromResult(Made.Of("content_digest", Signing.ContentDigest(Made.Bytes(told["body"]))));
            case "encode_recording":
                return Task.FromResult(Made.Of("recording", Convert.ToBase64String(Pure.Encoded(told))));
            case "record":
                return Task.FromResult(Made.Of("recording", Convert.ToBase64String(Pure.Recorded(told))));
            case "claim":
                var claim = Made.Claim(told);
                var body = told["committed"].IsNull ? claim.Body() : claim.CommittedBody();
                return Task.FromResult(Made.Of("body", Convert.ToBase64String(body)));
            case "open":
                session.Open(told);
                return Task.FromResult(Made.Nothing);
            default:
                return Play(session, told) ?? Read(session.Client, told);
        }
    }

    private static Task<JsonValue> Play(Session session, JsonValue told)
    {
        var client = session.Client;
        switch (told["do"].AsText())
        {
            case "create_player":
                return Json(client.CreatePlayer(told["name"].AsTextOrNull()));
            case "open_run":
                return OpenRun(session, told);
            case "submit":
                return Json(client.Submit(session.Runs[told["ticket"].AsText()], Made.Claim(told)));
            case "commit":
                return Json(client.Commit(session.Runs[told["ticket"].AsText()], Made.Claim(told)));
            case "submit_later":
                return SubmitLater(session, told);
            case "flush":
                return Flush(client);
            case "waiting":
                return Task.FromResult(new JsonObject().Add("entries", client.Waiting).Build());
            case "reveals":
                return List("reveals", client.Reveals());
            case "reveal":
                return Done(client.Reveal(told["submission"].AsText(), Made.Bytes(told["recording"])));
            case "submission":
                return Json(client.Submission(told["submission"].AsText()));
            case "wait_until_settled":
                return Json(client.WaitUntilSettled(told["submission"].AsText(), told["timeout_s"].AsDouble()));
            case "follow":
                return Json(client.Follow(told["player"].AsText()));
            case "unfollow":
                return Json(client.Unfollow(told["player"].AsText()));
            case "friends":
                return Friends(client);
            case "set_membership":
                return Json(client.SetMembership(
                    told["board"].AsText(), told["segment"].AsText(), told["group"].AsTextOrNull()));
            default:
                return null;
        }
    }

    private static Task<JsonValue> Read(ScoregateClient client, JsonValue told)
    {
        var limit = told["limit"].AsLongOrNull();
        var cursor = told["cursor"].AsTextOrNull();
        var window = told["window"].AsTextOrNull();
        switch (told["do"].AsText())
        {
            case "boards":
                return Json(client.Boards(limit, cursor));
            case "board":
                return Json(client.Board(told["board"].AsText()));
            case "entries":
                return Json(client.Entries(told["board"].AsText(), Made.Query(told)));
            case "entry":
                return Json(client.Entry(told["board"].AsText(), told["player"].AsText(), window));
            case "around":
                return Json(client.Around(
                    told["board"].AsText(), told["player"].AsText(), told["radius"].AsLongOrNull()));
            case "families":
                return Json(client.Families(limit, cursor));
            case "family_boards":
                return Json(client.FamilyBoards(
                    told["family"].AsText(), told["order"].AsTextOrNull(), limit, cursor, Made.Metadata(told)));
            case "standings":
                return Json(client.Standings(
                    told["family"].AsText(), told["player"].AsText(), window, limit, cursor));
            case "entries_on":
                return List("entries", client.EntriesOn(told["player"].AsText(), Made.Texts(told["boards"]), window));
            case "asset":
                return Asset(client, told);
            case "watch":
                return Watch(client, told);
            default:
                return null;
        }
    }

    private static async Task<JsonValue> OpenRun(Session session, JsonValue told)
    {
        var run = await session.Client.OpenRun(told["board"].AsText(), told["build"].AsText());
        session.Runs[run.Ticket] = run;
        return run.Json;
    }

    private static async Task<JsonValue> SubmitLater(Session session, JsonValue told)
    {
        var run = session.Runs[told["ticket"].AsText()];
        var entry = await session.Client.SubmitLater(run, Made.Claim(told), told["committed"].AsBoolOrNull() ?? false);
        return Made.Of("entry", entry.Name);
    }

    private static async Task<JsonValue> Flush(ScoregateClient client)
    {
        var outcomes = new List<JsonValue>();
        var report = await client.Flush();
        foreach (var outcome in report.Outcomes)
        {
            var problem = outcome.Problem;
            outcomes.Add(new JsonObject()
                .Add("entry", outcome.Name)
                .Add("ticket", outcome.Entry?.Ticket)
                .Add("outcome", outcome.Outcome)
                .Add("receipt", outcome.Receipt?.Json)
                .Add("problem", problem == null
                    ? JsonValue.Null
                    : Made.Problem(problem.Status, problem.Reason, problem.Detail, problem.RetryAfterS))
                .Build());
        }

        return new JsonObject()
            .Add("outcomes", JsonValue.Of(outcomes))
            .Add("revealed", JsonValue.Of(report.Revealed.Select(JsonValue.Of).ToArray()))
            .Build();
    }

    private static async Task<JsonValue> Friends(ScoregateClient client)
    {
        var ids = (await client.Friends()).Friends.Select(friend => JsonValue.Of(friend.Player));
        return new JsonObject().Add("friends", JsonValue.Of(ids.ToArray())).Build();
    }

    private static async Task<JsonValue> Asset(ScoregateClient client, JsonValue told)
    {
        var content = await client.Asset(told["board"].AsText(), told["digest"].AsText());
        return Made.Of("content", Convert.ToBase64String(content));
    }

    private static async Task<JsonValue> Watch(ScoregateClient client, JsonValue told)
    {
        var events = new List<JsonValue>();
        var count = told["count"].AsLong();
        var window = told["window"].AsTextOrNull();
        var query = new FeedQuery { Windows = window == null ? null : new[] { window } };
        using (var enough = new CancellationTokenSource(TimeSpan.FromSeconds(told["timeout_s"].AsDouble())))
        {
            try
            {
                await client.Watch(told["board"].AsText(), query, item =>
                {
                    if (events.Count < count)
                    {
                        events.Add(new JsonObject().Add("event", item.Kind).Add("id", item.Id).Add("data", item.Data).Build());
                    }

                    if (events.Count == count)
                    {
                        enough.Cancel();
                    }
                }, enough.Token);
            }
            catch (OperationCanceledException)
            {
                // Enough, or too late.
            }
        }

        return new JsonObject().Add("events", JsonValue.Of(events)).Build();
    }

    private static async Task<JsonValue> Json<T>(Task<T> made)
        where T : Document => (await made)?.Json ?? JsonValue.Null;

    private static async Task<JsonValue> List<T>(string name, Task<IReadOnlyList<T>> made)
        where T : Document =>
        new JsonObject().Add(name, JsonValue.Of((await made).Select(item => item.Json).ToArray())).Build();

    private static async Task<JsonValue> Done(Task made)
    {
        await made;
        return Made.Nothing;
    }
}
