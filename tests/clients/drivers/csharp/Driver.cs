using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Scoregate;

/// <summary>The driver of the C# client: a request a line on standard input, an answer a line on standard output.</summary>
internal static class Driver
{
    private static int Main()
    {
        var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
        var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { NewLine = "\n" };
        var session = new Session();
        for (var line = input.ReadLine(); line != null; line = input.ReadLine())
        {
            output.WriteLine(AnswerTo(session, JsonReader.Read(line)).ToString());
            output.Flush();
        }

        return 0;
    }

    private static JsonValue AnswerTo(Session session, JsonValue told)
    {
        try
        {
            var done = Commands.Do(session, told);
            return done == null ? Error(0, "unsupported", told["do"].AsText(), null) : Ok(done.GetAwaiter().GetResult());
        }
        catch (ScoregateError error)
        {
            return Error(error.Status, error.Reason, error.Detail, error.RetryAfterS);
        }
        catch (Exception error) when (error is ArgumentException || error is InvalidOperationException || error is OverflowException)
        {
            return Error(0, "invalid", error.Message, null);
        }
    }

    private static JsonValue Ok(JsonValue value) => new JsonObject().Add("ok", value).Build();

    private static JsonValue Error(int status, string reason, string detail, double? retryAfterS) =>
        new JsonObject().Add("error", Made.Problem(status, reason, detail, retryAfterS)).Build();
}

/// <summary>The client as it was opened last, with the runs that it opened.</summary>
internal sealed class Session
{
    internal readonly Dictionary<string, Run> Runs = new Dictionary<string, Run>();
    internal ScoregateClient Client = new ScoregateClient("http://127.0.0.1:1");

    internal void Open(JsonValue told)
    {
        var options = new ScoregateOptions
        {
            Token = told["token"].AsTextOrNull(),
            QueueFolder = told["queue"].AsTextOrNull(),
            Attempts = (int)(told["attempts"].AsLongOrNull() ?? 6),
            Clock = new TestClock(told["now_s"].AsDoubleOrNull(), told["clock_offset_s"].AsDoubleOrNull() ?? 0),
        };
        var nonce = told["nonce"].AsTextOrNull();
        if (nonce != null)
        {
            options.Nonce = () => nonce;
        }

        Client = new ScoregateClient(told["base_url"].AsText(), options);
    }
}

/// <summary>A clock that stands still, or is off.</summary>
internal sealed class TestClock : IClock
{
    private readonly SystemClock real = new SystemClock();
    private readonly double? fixedS;
    private readonly double offsetS;

    internal TestClock(double? fixedS, double offsetS)
    {
        this.fixedS = fixedS;
        this.offsetS = offsetS;
    }

    public double NowS => fixedS ?? real.NowS + offsetS;

    public Task Wait(double seconds, CancellationToken cancel) => real.Wait(seconds, cancel);
}
